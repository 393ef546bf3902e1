// Headings, names, ids: what a screen reader needs.
const nameOf = (element) => {
  const by = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
  const labels = by.map((id) => document.getElementById(id)?.textContent || "").join(" ");
  const title = [...element.children].find((child) => child.localName === "title")?.textContent;
  const label = element.labels?.[0]?.textContent;
  return (labels || element.getAttribute("aria-label") || title || label || "").trim();
};

const structureFaults = () => {
  const faults = [], say = (sentence) => faults.push(sentence);
  if (!document.documentElement.lang) say("<html> has no lang");
  if (!document.title.trim()) say("the page has no title");
  if (document.compatMode !== "CSS1Compat") say("the page has no doctype");
  if (!document.querySelector("meta[name=viewport]")) say("no viewport is set: phones would shrink the page");
  if (all("main").length !== 1) say(`${all("main").length} <main> instead of one`);
  const firsts = all("h1");
  if (firsts.length !== 1) say(`${firsts.length} <h1> instead of one`);
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6")) {
    const own = Number(heading.localName[1]);
    if (own > level + 1) say(`${named(heading)} follows a heading of level ${level}`);
    if (!heading.textContent.trim()) say(`${named(heading)} is empty`);
    level = own;
  }
  for (const drawing of all("svg")) {
    const hidden = drawing.closest("[aria-hidden=true]");
    const inside = drawing.parentElement.closest("svg");
    if (hidden || inside) continue;
    // A group, where marks inside can be reached: what is inside an image is not read out.
    const wanted = drawing.querySelector("[tabindex='0']") ? "group" : "img";
    if (drawing.getAttribute("role") !== wanted) say(`${named(drawing)} has neither role="${wanted}" nor aria-hidden`);
    if (!nameOf(drawing)) say(`${named(drawing)} has no accessible name`);
  }
  for (const table of all("table")) if (!table.querySelector("th")) say(`${named(table)} has no <th>`);
  for (const control of all("button, summary, a[href]")) {
    if (!nameOf(control) && !control.textContent.trim() && !control.title) say(`${named(control)} has no name`);
  }
  for (const control of all("input, select, textarea")) {
    if (!nameOf(control)) say(`${named(control)} has no label`);
  }
  for (const region of all("[tabindex='0']")) {
    const native = region.matches("a, button, summary, input, select, textarea");
    const role = region.getAttribute("role") || region.matches("nav, main, aside");
    if (!native && !(role && nameOf(region))) {
      say(`${named(region)} can be focused, but has no role and name to be read out`);
    }
  }
  return faults;
};

const outwardLinks = () => [
  ...all("link[href], script[src], img[src], iframe[src], use[href], form[action], a[ping]")
    .map((element) => [element, element.getAttribute("href") || element.getAttribute("src") ||
      element.getAttribute("action") || element.getAttribute("ping")])
    .filter(([, address]) => !/^(data:|#)/.test(address))
    .map(([element, address]) => `${named(element)} refers to ${shortened(address, 80)}`),
];

const idFaults = () => {
  const counts = new Map();
  for (const element of all("[id]")) counts.set(element.id, (counts.get(element.id) || 0) + 1);
  const twice = [...counts].filter(([, count]) => count > 1)
    .map(([id, count]) => `${count} elements have the id "${id}"`);
  const refers = ["aria-labelledby", "aria-describedby", "aria-controls", "headers", "for", "data-copy"];
  const dangling = refers.flatMap((attribute) => all(`[${attribute}]`).flatMap((element) =>
    element.getAttribute(attribute).split(/\s+/).filter((id) => id && !counts.has(id))
      .map((id) => `${attribute} of ${named(element)} names "${id}", which does not exist`)));
  return [...twice, ...dangling];
};

// Closes all parts, follows each link, and looks whether its target can be seen.
const linkFaults = async (most) => {
  const faults = [], targets = new Map();
  for (const link of all("a[href^='#']")) {
    const id = decodeURIComponent(link.getAttribute("href").slice(1));
    const target = document.getElementById(id);
    if (!target && id !== "" && id !== "top") faults.push(`${named(link)} points to #${id}, which does not exist`);
    if (target && !targets.has(target)) targets.set(target, link);
  }
  const pairs = [...targets], step = Math.max(1, pairs.length / most);
  for (let at = 0; at < pairs.length; at += step) {
    const [target, link] = pairs[Math.floor(at)];
    all("details[open]").forEach((each) => { each.open = false; });
    openAround(link);
    link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window }));
    await settled();
    const box = target.getBoundingClientRect();
    const where = `the target of ${named(link)}, ${named(target)},`;
    if (!target.checkVisibility({ visibilityProperty: true })) faults.push(`${where} stays hidden`);
    else if (box.bottom < 0 || box.top > innerHeight) faults.push(`${where} is not scrolled to`);
    else if (isShown(target) && coverOf(target)) faults.push(`${where} is covered by ${named(coverOf(target))}`);
  }
  return faults;
};
