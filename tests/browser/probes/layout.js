// Width, touch targets, and paper.
const sideways = () => {
  const width = document.documentElement.clientWidth, root = document.scrollingElement;
  if (root.scrollWidth <= width) return [];
  const clips = (element) => {
    for (let each = element.parentElement; each && each !== document.body; each = each.parentElement) {
      if (getComputedStyle(each).overflowX !== "visible") return true;
    }
    return false;
  };
  const wide = all("body *").map((element) => [element.getBoundingClientRect().right + scrollX, element])
    .filter(([right, element]) => right > width + 0.5 && isShown(element) && !clips(element));
  // The innermost ones: what contains them is wide because of them.
  const around = new Set(wide.map(([, element]) => element.parentElement));
  for (const each of around) if (each.parentElement) around.add(each.parentElement);
  const causes = wide.filter(([, element]) => !around.has(element));
  causes.sort(([one], [other]) => other - one);
  return [
    `the page is ${root.scrollWidth} px wide in a window of ${width} px`,
    ...causes.slice(0, 5).map(([right, element]) => `${named(element)} reaches ${Math.round(right)} px`),
  ];
};

const MARKS = "svg *"; // their places and sizes are data, which WCAG calls essential
const isInlineInText = (element) => {
  if (getComputedStyle(element).display !== "inline") return false;
  const block = element.parentElement;
  return block.textContent.trim().length > element.textContent.trim().length;
};
const smallTargets = (least) => {
  const faults = [];
  for (const element of all(INTERACTIVE)) {
    if (element.tabIndex < 0 || element.matches(MARKS) || !isShown(element)) continue;
    const box = element.getBoundingClientRect();
    if (isInlineInText(element) || (box.width >= least && box.height >= least)) continue;
    const size = `${box.width.toFixed(1)} x ${box.height.toFixed(1)}`;
    faults.push(`${named(element)} is ${size} px, smaller than ${least} x ${least}`);
  }
  return faults;
};

const beforePrint = () => { dispatchEvent(new Event("beforeprint")); };
const cutOff = () => all("body *")
  .filter((element) => {
    const { overflowX, overflowY, display, textOverflow } = getComputedStyle(element);
    if (overflowX === "visible" && overflowY === "visible") return false;
    if (display.startsWith("inline") || !isShown(element) || element.closest("svg")) return false;
    const wide = overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1;
    const high = overflowY !== "visible" && element.scrollHeight > element.clientHeight + 1;
    return (wide && textOverflow !== "ellipsis") || high;
  })
  .map((element) => `${named(element)} scrolls, and paper cuts it off`);
