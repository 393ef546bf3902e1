// What Tab reaches, in which order, and whether one sees where it is.
const SEEN = ["boxShadow", "borderTopColor", "borderBottomColor", "backgroundColor", "textDecorationLine",
  "textDecorationColor", "color", "stroke", "strokeWidth", "fill"];
const looks = (element) => {
  const style = getComputedStyle(element);
  return SEEN.map((property) => style[property]).join("|");
};

const isStop = (element) => {
  if (element.disabled || element.tabIndex < 0 || element.closest("[inert]")) return false;
  if (element.localName === "summary" && element.parentElement.querySelector(":scope > summary") !== element) return false;
  const group = element.type === "radio" && all(`input[type=radio][name="${element.name}"]`);
  if (group && element !== (group.find((each) => each.checked) || group[0])) return false;
  return element.checkVisibility({ visibilityProperty: true });
};

// Kept on the window between two calls: the elements themselves cannot be sent.
const startTabbing = () => {
  const stops = all(INTERACTIVE).filter(isStop);
  window.__tabbing = { stops, before: new Map(stops.map((each) => [each, looks(each)])) };
  document.activeElement?.blur?.();
  getSelection().removeAllRanges();
  scrollTo(0, 0);
  const positive = all("[tabindex]").filter((each) => each.tabIndex > 0);
  return {
    count: stops.length,
    faults: [
      ...positive.map((each) => `${named(each)} has a tabindex above 0, which changes the order`),
      ...unreachable(), ...scrollers(),
    ],
  };
};
const unreachable = () => all("a[href], button, summary, input, select, textarea")
  .filter((each) => !each.disabled && each.tabIndex < 0 && isShown(each))
  .filter((each) => !each.closest("[data-arrows]")) // reached by arrow keys from the one that Tab reaches
  .map((each) => `${named(each)} cannot be reached by Tab`);
const scrollers = () => all("body *")
  .filter((each) => isShown(each) && scrollsInside(each) && each.tabIndex !== 0)
  .filter((each) => !each.matches("textarea, select, input"))
  .map((each) => `${named(each)} scrolls, but has no tabindex="0" for the keyboard`);

// The stop that has the focus now, by its number; -1 where it is none of them.
const tabbed = (asked) => {
  const { stops, before } = window.__tabbing, at = document.activeElement;
  const index = stops.indexOf(at), nothing = !at || at === document.body;
  return {
    at: index, name: nothing ? "nothing" : named(at), expected: named(stops[asked]),
    scroller: index < 0 && !nothing && scrollsInside(at), // Chromium stops at those of itself
    faults: index < 0 ? [] : focusFaults(at, before.get(at)),
  };
};
const focusFaults = (element, before) => {
  const style = getComputedStyle(element), cover = coverOf(element);
  const faults = cover && isShown(element) ? [`${named(element)} has the focus, but ${named(cover)} covers it`] : [];
  if (style.outlineStyle === "auto") return faults; // the browser's own ring, in two colours
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  if (outlined) {
    const behind = backgroundOf(element.parentElement), ring = over(rgba(style.outlineColor), behind);
    const ratio = contrastOf(ring, behind);
    if (ratio < 3) faults.push(`the focus ring of ${named(element)} has a contrast of ${ratio.toFixed(2)}:1, less than 3:1`);
  } else if (looks(element) === before) {
    faults.push(`${named(element)} looks the same with the focus as without it`);
  }
  return faults;
};
