"""Checks of keet's HTML pages in a real browser: headless Chromium, driven by Playwright."""
