"use strict";
// Colours and search. The pages are complete without this script.
(function () {
  const root = document.documentElement;
  const stored = {
    get() { try { return localStorage.getItem("keet-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("keet-theme", value); } catch { /* private window */ } },
  };
  const theme = stored.get();
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;

  const LIMIT = 12; // results that are shown
  const AROUND = 70; // characters of text on each side of a hit

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function isDark() {
    return root.dataset.theme === "dark"
      || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  }

  function themeButton() {
    const button = element("button", { type: "button" });
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      stored.set(root.dataset.theme);
      label();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
    label();
    return button;
  }

  // A script instead of a request: a page that was opened from a folder may not fetch files.
  let loading = null;
  function index() {
    loading ??= new Promise((resolve) => {
      const script = element("script", { src: root.dataset.root + "search_index.js" });
      script.addEventListener("load", () => resolve(window.keetSearch));
      script.addEventListener("error", () => resolve([]));
      document.head.append(script);
    });
    return loading;
  }

  function score(entry, words) {
    const title = entry.title.toLowerCase();
    const page = entry.page.toLowerCase();
    const text = entry.text.toLowerCase();
    let total = 0;
    for (const word of words) {
      let found = 0;
      if (title === word) found += 40;
      else if (title.startsWith(word)) found += 14;
      else if (title.includes(word)) found += 9;
      if (page.includes(word)) found += 3;
      if (text.includes(word)) found += 1 + Math.min(3, text.split(word).length - 2);
      if (!found) return 0;
      total += found;
    }
    if (words.length > 1 && title.includes(words.join(" "))) total += 12;
    return total;
  }

  function snippet(entry, words) {
    const at = Math.max(0, entry.text.toLowerCase().indexOf(words[0]));
    const start = Math.max(0, at - AROUND);
    const end = Math.min(entry.text.length, at + 2 * AROUND);
    return (start ? "… " : "") + entry.text.slice(start, end) + (end < entry.text.length ? " …" : "");
  }

  function row(entry, words) {
    const href = root.dataset.root + entry.href + (entry.anchor ? "#" + entry.anchor : "");
    const place = entry.title === entry.page ? "" : " · " + entry.page;
    return element("a", { href }, element("b", { textContent: entry.title }), place,
      element("small", { textContent: snippet(entry, words) }));
  }

  function search(entries, text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const scored = entries.map((entry) => [score(entry, words), entry]).filter(([points]) => points);
    scored.sort((one, other) => other[0] - one[0]);
    return scored.slice(0, LIMIT).map(([, entry]) => row(entry, words));
  }

  function searchBox(bar) {
    const input = element("input", { type: "search", placeholder: "Search ( / )", autocomplete: "off" });
    input.setAttribute("aria-label", "Search the documentation");
    const results = element("div", { className: "results", hidden: true });
    results.setAttribute("role", "region");
    results.setAttribute("aria-label", "Search results");
    bar.append(results);
    const close = () => { results.hidden = true; };
    async function update() {
      const text = input.value.trim();
      if (!text) return close();
      const entries = await index();
      if (text !== input.value.trim()) return; // a later key has asked already
      const found = search(entries, text);
      results.replaceChildren(...(found.length ? found : [element("p", { textContent: "Nothing found." })]));
      results.hidden = false;
    }
    input.addEventListener("input", update);
    input.addEventListener("focus", index);
    results.addEventListener("click", close);
    bar.addEventListener("keydown", (event) => {
      const links = [...results.querySelectorAll("a")];
      const at = links.indexOf(document.activeElement);
      if (event.key === "Escape") { close(); input.focus(); }
      else if (event.key === "Enter" && document.activeElement === input && links[0]) links[0].click();
      else if (event.key === "ArrowDown" && !results.hidden) links[Math.min(at + 1, links.length - 1)]?.focus();
      else if (event.key === "ArrowUp" && at >= 0) (links[at - 1] ?? input).focus();
      else return;
      event.preventDefault();
    });
    document.addEventListener("click", (event) => { if (!bar.contains(event.target)) close(); });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || /^(input|textarea)$/i.test(document.activeElement?.tagName ?? "")) return;
      event.preventDefault();
      input.focus();
    });
    return input;
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("tools").append(searchBox(document.querySelector(".bar")), themeButton());
    const navigation = document.querySelector(".navigation");
    const current = navigation.querySelector("[aria-current]");
    if (current) navigation.scrollTop = current.offsetTop - navigation.clientHeight / 2;
  });
})();
