// What several probes need. Every probe is called inside the page, and returns plain data.
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const INTERACTIVE = "a[href], button, summary, input, select, textarea, [tabindex]";
const shortened = (text, length = 40) => {
  const one = text.replace(/\s+/g, " ").trim();
  return one.length > length ? one.slice(0, length - 1) + "\u2026" : one;
};

// An element as a person finds it: <td class="number"> "12.3 %" in #kernels
const named = (element) => {
  const id = element.id ? ` id="${element.id}"` : "";
  const classes = element.getAttribute("class");
  const text = shortened(element.textContent || element.getAttribute("aria-label") || "");
  const near = element.id ? null : element.parentElement?.closest("[id]");
  return `<${element.localName}${id}${classes ? ` class="${classes}"` : ""}>` +
    (text ? ` "${text}"` : "") + (near ? ` in #${near.id}` : "");
};

const isShown = (element) => {
  if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false;
  const box = element.getBoundingClientRect();
  // Texts for screen readers only are 1 px wide, or left of the page.
  return box.width > 1 && box.height > 1 && box.right + scrollX > 0 && box.bottom + scrollY > 0;
};

const frame = () => new Promise((done) => requestAnimationFrame(() => done()));
const settled = async () => { // scrolled, and drawn
  let before = NaN;
  for (let frames = 0; frames < 120 && before !== scrollY; frames += 1) {
    before = scrollY;
    await frame();
    await frame();
  }
};

const openAround = (element) => {
  for (let each = element.parentElement; each; each = each.parentElement) {
    if (each.localName === "details") each.open = true;
  }
};
const openDetails = () => all("details").forEach((each) => { each.open = true; });
const goTo = async (id) => {
  location.hash = id;
  await settled();
};

const scrollsInside = (element) => {
  const { overflowX, overflowY } = getComputedStyle(element);
  const scrolls = (how) => how === "auto" || how === "scroll";
  return (scrolls(overflowX) && element.scrollWidth > element.clientWidth + 1) ||
    (scrolls(overflowY) && element.scrollHeight > element.clientHeight + 1);
};

// What is drawn over the start of an element, such as a bar that stays at the top; null if nothing.
// The corner of a mark's box may belong to another mark: a line of a chart fills no box.
const coverOf = (element) => {
  const box = element.getClientRects()[0] || element.getBoundingClientRect();
  const x = Math.min(Math.max(box.left + Math.min(4, box.width / 2), 0), innerWidth - 1);
  const hit = document.elementFromPoint(x, box.top + Math.min(4, box.height / 2));
  const drawing = element.closest("svg");
  return !hit || element.contains(hit) || hit.contains(element) || drawing?.contains(hit) ? null : hit;
};

const area = (selector) => {
  const root = document.scrollingElement;
  if (!selector) return [0, 0, innerWidth, root.scrollHeight];
  const box = document.querySelector(selector)?.getBoundingClientRect();
  if (!box) throw new Error(`nothing on this page is ${selector}`);
  return [Math.max(0, box.left + scrollX), box.top + scrollY, box.width, box.height];
};

const timing = async () => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0];
  for (let frames = 0; frames < 60 && !painted(); frames += 1) await frame();
  const [loaded] = performance.getEntriesByType("navigation"), paint = painted();
  return {
    load: loaded.loadEventEnd, ready: loaded.domContentLoadedEventEnd, paint: paint?.startTime ?? 0,
    elements: all("*").length, height: document.scrollingElement.scrollHeight,
  };
};

// Text that is seen without a click, but for what belongs to controls.
const shownTexts = () => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walk.nextNode()) {
    const text = walk.currentNode.data.replace(/\s+/g, " ").trim(), parent = walk.currentNode.parentElement;
    const control = parent.closest("button, input, script, style, noscript, title, [role=tooltip], [role=status], [role=toolbar]");
    if (!text || parent.closest("nav") || !isShown(parent)) continue;
    if (!control || control.closest("th")) texts.push(text);
  }
  return texts;
};

// Sort buttons in a header are exempt: without a script they are still the header's text.
const shownButtons = () => all("button").filter((each) => isShown(each) && !each.closest("th")).map(named);
