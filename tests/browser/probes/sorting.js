// Tables with buttons in their headers. A table is named by its number in the page. Of tables with
// the same headers two are tried: a page with many launches has one for each.
const sortableHeaders = () => {
  const seen = new Map();
  return all("table").flatMap((table, at) => {
    const buttons = all("thead th button", table), key = buttons.map((each) => each.textContent).join("|");
    seen.set(key, (seen.get(key) || 0) + 1);
    const places = buttons.map((each, number) => [each, [at, number]]);
    // Small screens hide columns.
    return seen.get(key) > 2 ? [] : places.filter(([each]) => each.checkVisibility() || each.closest("details:not([open])")).map(([, place]) => place);
  });
};

const sortButton = ([table, button]) => {
  const found = all("thead th button", all("table")[table])[button];
  openAround(found);
  return found;
};

const columnOf = (header) => [...header.parentElement.cells]
  .slice(0, header.cellIndex).reduce((sum, cell) => sum + cell.colSpan, 0);

const compareValues = (one, other) => {
  const numbers = [Number(one), Number(other)];
  if (numbers.every(Number.isFinite)) return numbers[0] - numbers[1];
  return one.localeCompare(other, "en", { numeric: true });
};

// Values as the rows stand now, per body of the table; an empty value is unknown and comes last.
const sortState = (place) => {
  const button = sortButton(place), header = button.closest("th"), table = header.closest("table");
  const column = columnOf(header);
  const bodies = [...table.tBodies].map((body) => [...body.rows]
    .filter((row) => row.cells[column])
    .map((row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim()));
  const others = all("th[aria-sort]", table).filter((each) => each !== header && each.ariaSort !== "none");
  return {
    name: named(header), sort: header.getAttribute("aria-sort"), others: others.map(named),
    focused: document.activeElement === button, rows: bodies.flat().length,
    wrong: bodies.map((values) => disorder(values, header.getAttribute("aria-sort"))).find(Boolean) || null,
  };
};
const disorder = (values, direction) => {
  const sign = direction === "descending" ? -1 : 1;
  for (let at = 1; at < values.length; at += 1) {
    const [one, other] = [values[at - 1], values[at]];
    const wrong = one === "" ? other !== "" : other !== "" && sign * compareValues(one, other) > 0;
    if (wrong) return `"${shortened(one)}" stands before "${shortened(other)}"`;
  }
  return null;
};
const focusSort = (place) => sortButton(place).focus();
const clickSort = (place) => sortButton(place).click();
