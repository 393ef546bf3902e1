// Contrast of text by WCAG 2: its colour against all that is painted under it.
const remembering = (compute) => {
  const results = new Map();
  return (key) => {
    if (!results.has(key)) results.set(key, compute(key));
    return results.get(key);
  };
};
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = remembering((colour) => { // any syntax of CSS, as [red, green, blue, alpha], 0..255 and 0..1
  const plain = /^rgba?\(([\d.]+),? ([\d.]+),? ([\d.]+)(?:,? \/? ?([\d.]+))?\)$/.exec(colour);
  if (plain) return [+plain[1], +plain[2], +plain[3], plain[4] === undefined ? 1 : +plain[4]];
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
  return [red, green, blue, alpha / 255];
});
const faded = ([red, green, blue, alpha], opacity) => [red, green, blue, alpha * opacity];
const over = (front, back) => {
  const alpha = front[3] + back[3] * (1 - front[3]);
  if (alpha === 0) return [0, 0, 0, 0];
  const mixed = [0, 1, 2].map((at) => (front[at] * front[3] + back[at] * back[3] * (1 - front[3])) / alpha);
  return [...mixed, alpha];
};
const luminance = (colour) => {
  const [red, green, blue] = colour.slice(0, 3).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrastOf = (one, other) => {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
const hex = (colour) => "#" + colour.slice(0, 3).map((value) => Math.round(value).toString(16).padStart(2, "0")).join("");

const opacityOf = remembering((element) => {
  const own = Number(getComputedStyle(element).opacity);
  return element.parentElement ? own * opacityOf(element.parentElement) : own;
});

// What an element paints as its background: one colour, or each stop of a gradient.
const SHAPES = "rect, circle, ellipse, path, polygon, polyline, line";
const paintOf = remembering((element) => {
  const style = getComputedStyle(element), opacity = opacityOf(element);
  if (element.matches(SHAPES)) { // strokes are thin: a text over one has a halo, or room beside it
    if (element.localName === "line" || style.fill === "none" || style.fill.startsWith("url(")) return [];
    return [faded(rgba(style.fill), opacity * Number(style.fillOpacity))];
  }
  if (element instanceof SVGElement && element.localName !== "svg") return [];
  const colour = faded(rgba(style.backgroundColor), opacity);
  if (!style.backgroundImage.includes("gradient")) return colour[3] > 0 ? [colour] : [];
  const stops = style.backgroundImage.match(/(rgba?|color|oklab|oklch|lab|lch)\([^()]*\)/g) || [];
  return stops.map((stop) => over(faded(rgba(stop), opacity), colour));
});
const canvasColour = remembering(() => {
  const probe = document.createElement("i");
  probe.style.backgroundColor = "Canvas";
  document.documentElement.append(probe);
  const colour = rgba(getComputedStyle(probe).backgroundColor);
  probe.remove();
  return colour;
});
// Every colour that may be behind, front layer first: one, or more where there are gradients.
const behind = (layers) => {
  let fronts = [[0, 0, 0, 0]];
  for (const layer of layers) {
    const paints = paintOf(layer);
    if (paints.length) fronts = fronts.flatMap((front) => paints.map((paint) => over(front, paint))).slice(0, 64);
    if (fronts.every((front) => front[3] > 0.999)) return fronts;
  }
  return fronts.map((front) => over(front, canvasColour(document)));
};
const ancestors = (element) => {
  const chain = [];
  for (let each = element; each; each = each.parentElement) chain.push(each);
  return chain;
};
const backgroundOf = remembering((element) => behind(ancestors(element))[0]);

// Layers under a part of the text in the order of painting, SVG shapes and boxes placed under it among
// them. The point must be inside the window, so the text is scrolled there if need be. What contains
// the text, where even that does not help: a line that is longer than the window.
const layersUnder = (node, element, part) => {
  const hit = () => {
    const box = boxOf(node);
    const stack = document.elementsFromPoint(box.left + box.width * part, box.top + box.height / 2);
    return stack.includes(element) ? stack.slice(stack.indexOf(element)) : null;
  };
  const here = hit();
  if (here) return here;
  element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  return hit() || ancestors(element);
};

const textColour = (style, element) => {
  const colour = element instanceof SVGElement
    ? faded(rgba(style.fill === "none" ? "rgba(0, 0, 0, 0)" : style.fill), Number(style.fillOpacity))
    : rgba(style.color);
  return faded(colour, opacityOf(element));
};
const neededRatio = (style, element) => {
  const scale = element instanceof SVGElement ? element.getScreenCTM?.()?.a || 1 : 1;
  const size = parseFloat(style.fontSize) * scale;
  return size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
};

const hitEverything = () => { // a constructed sheet, which a content policy does not forbid
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("* { pointer-events: auto !important }");
  document.adoptedStyleSheets.push(sheet);
  return () => { document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet); };
};

const visibleTextNodes = function* () {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || parent.closest("script, style, noscript, title, desc")) continue;
    if (!parent.matches(":disabled") && isShown(parent)) yield [walk.currentNode, parent];
  }
};
const boxOf = (node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return [...range.getClientRects()].find((box) => box.width > 1 && box.height > 1);
};

// Texts that are styled alike need not all be looked at: a listing has thousands of them. What lies
// under a text of a drawing is data, so that of those more are looked at.
const alike = (element) => (element instanceof SVGElement ? 8 : 2);
const contrastFaults = () => {
  const faults = new Map(), seen = new Map(), restore = hitEverything();
  const look = (element, style, layers, what) => {
    const colours = behind(layers), front = textColour(style, element);
    const [ratio, back] = colours.map((each) => [contrastOf(over(front, each), each), each])
      .sort(([one], [other]) => one - other)[0];
    const needed = neededRatio(style, element);
    if (ratio >= needed - 0.005) return;
    const colourPair = `${hex(over(front, back))} on ${hex(back)}`;
    const key = `${element.localName}|${element.getAttribute("class")}|${colourPair}`;
    if (!faults.has(key)) faults.set(key, `${what} is ${colourPair}: ${ratio.toFixed(2)}:1, less than ${needed}:1`);
  };
  for (const [node, parent] of visibleTextNodes()) {
    const style = getComputedStyle(parent);
    const chain = ancestors(parent).slice(0, 4).map((each) => each.localName + (each.getAttribute("class") || "")).join();
    const key = [chain, style.color, style.fill, hex(backgroundOf(parent))].join("|");
    seen.set(key, (seen.get(key) || 0) + 1);
    if (seen.get(key) > alike(parent) || !boxOf(node)) continue;
    for (const part of [0.1, 0.9]) look(parent, style, layersUnder(node, parent, part), named(parent));
    for (const pseudo of ["::before", "::after"]) {
      const own = getComputedStyle(parent, pseudo);
      if (!/^".*\S.*"/.test(own.content)) continue;
      look(parent, own, layersUnder(node, parent, 0.5), `${pseudo} of ${named(parent)}`);
    }
  }
  restore();
  return [...faults.values()];
};

const paperColours = () => ["html", "body"].map((name) => [name, backgroundOf(document.querySelector(name))])
  .filter(([, colour]) => luminance(colour) < 0.8)
  .map(([name, colour]) => `the background of <${name}> on paper is ${hex(colour)}`);
