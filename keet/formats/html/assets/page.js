// keet's pages are readable without this script. It adds sorting, filtering, copying, tooltips, keys,
// opening what a link points to, and a switch between light and dark.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // --- light and dark: what the system says, until the reader chooses

  const remembered = () => {
    try { return localStorage.getItem("keet-theme"); } catch { return null; }
  };
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const setTheme = (theme) => {
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("keet-theme", theme); } catch { /* a page without storage */ }
  };
  if (["light", "dark"].includes(remembered())) setTheme(remembered());

  const addThemeSwitch = () => {
    const button = make("button", { type: "button", className: "theme quiet" });
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.title = "Switch between light and dark";
    button.addEventListener("click", () => { setTheme(isDark() ? "light" : "dark"); label(); });
    label();
    const keys = make("button", { type: "button", className: "quiet", textContent: "?", title: "Keys" });
    keys.addEventListener("click", () => help.showModal());
    (document.querySelector("[data-toolbar]") || document.body).append(button, keys);
  };

  // --- a link's target may be inside closed parts

  const decoded = (fragment) => {
    try { return decodeURIComponent(fragment); } catch { return fragment; } // typed by hand
  };
  const reveal = (id) => {
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let each = target; each; each = each.parentElement) {
      if (each instanceof HTMLDetailsElement) each.open = true;
    }
    // What belongs to a line may be taller than the window: the line itself is to be seen.
    const focused = target.matches("details") ? target.querySelector("summary") : target;
    focused.scrollIntoView({ block: target.matches(".line") ? "center" : "start" });
    if (!focused.matches("a, button, summary, [tabindex]")) focused.tabIndex = -1;
    focused.focus({ preventScroll: true });
  };
  const revealHash = () => reveal(decoded(location.hash.slice(1)));
  addEventListener("hashchange", revealHash);
  // A second click on the same link changes no hash.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) revealHash();
  });

  // --- tables: sorted by data-value where a cell has one, else by its text

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    const value = cell.dataset.value ?? cell.textContent.trim();
    return value !== "" && isFinite(value) ? Number(value) : value;
  };
  const compare = (one, other) => {
    if (one === "" || other === "") return (one === "") - (other === ""); // unknown goes last
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), "en", { numeric: true });
  };
  const sortBy = (table, header) => {
    const column = [...header.parentElement.cells].indexOf(header);
    const first = header.dataset.first || "descending";
    const other = first === "descending" ? "ascending" : "descending";
    const direction = header.ariaSort === first ? other : first;
    const sign = direction === "descending" ? -1 : 1;
    for (const body of table.tBodies) {
      const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
      rows.sort(([a], [b]) => (a === "" || b === "" ? compare(a, b) : sign * compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    }
    for (const each of header.parentElement.cells) each.removeAttribute("aria-sort");
    header.ariaSort = direction;
  };
  const makeSortable = (table) => {
    for (const header of table.tHead?.rows[0]?.cells || []) {
      if (!header.textContent.trim()) continue;
      const button = make("button", { type: "button", className: "sort" }, ...header.childNodes);
      button.addEventListener("click", () => sortBy(table, header));
      header.append(button);
    }
  };

  const FILTERED_FROM = 12; // rows; fewer are seen at a glance
  const makeFilter = (table) => {
    const rows = all("tbody tr", table), isBeside = table.closest(".beside");
    if (rows.length < FILTERED_FROM && !isBeside) return;
    const what = isBeside ? "Filter kernels" : "Filter rows";
    const input = make("input", { type: "search", placeholder: what, ariaLabel: what });
    const count = make("span", { className: "muted", role: "status" });
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const shown = rows.filter((row) => {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        return !row.hidden;
      });
      count.textContent = words.length ? ` ${shown.length} of ${rows.length}` : "";
    });
    table.closest(".scroll, figure, section").before(make("p", { className: "filter" }, input, count));
  };

  // --- copying: a button names the element whose text it copies

  const copyText = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // an address without https, or an old browser
      const put = (event) => {
        event.clipboardData.setData("text/plain", text);
        event.preventDefault();
      };
      document.addEventListener("copy", put);
      try {
        if (!document.execCommand("copy")) throw new Error("not copied");
      } finally {
        document.removeEventListener("copy", put);
      }
    }
  };
  const makeCopier = (button) => {
    const label = button.textContent;
    const source = document.getElementById(button.dataset.copy);
    if (!source) return;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await copyText(source.textContent);
        button.textContent = "Copied";
      } catch {
        reveal(source.id);
        button.textContent = "Not copied: select the text below";
      }
      setTimeout(() => { button.textContent = label; }, 2500);
    });
  };

  // --- tooltips: what an SVG <title> says, at once, for the keyboard and on touch screens too

  const tip = make("div", { className: "tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  const showTip = (mark) => {
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), own = tip.getBoundingClientRect(), gap = 8;
    const left = Math.min(Math.max(gap, at.left + at.width / 2 - own.width / 2), innerWidth - own.width - gap);
    const above = at.top - own.height - gap;
    // Set through the object model, which the page's policy allows, unlike style attributes.
    tip.style.left = `${left}px`;
    tip.style.top = `${above > gap ? above : at.bottom + gap}px`;
  };
  const makeTip = (title) => {
    const mark = title.parentElement;
    if (mark.matches("svg")) return; // names the whole drawing
    mark.dataset.tip = title.textContent;
    mark.setAttribute("aria-label", title.textContent);
    mark.setAttribute("role", "img");
    // What is inside an image is not read out; these marks are to be.
    mark.closest("svg[role=img]")?.setAttribute("role", "group");
    title.remove();
    mark.tabIndex = 0;
    for (const event of ["pointerenter", "focus"]) mark.addEventListener(event, () => showTip(mark));
    for (const event of ["pointerleave", "blur"]) {
      mark.addEventListener(event, () => { tip.hidden = true; });
    }
  };

  // --- the list beside the page: folded on small screens; the entry of what is in sight is marked

  const showIn = (box, entry) => { // without scrolling the page
    const at = entry.getBoundingClientRect(), own = box.getBoundingClientRect();
    if (at.top < own.top || at.bottom > own.bottom) box.scrollTop += at.top - own.top - own.height / 2;
  };
  const followSections = (list) => {
    if (matchMedia("(max-width: 1199px)").matches) list.querySelector("details").open = false;
    const links = new Map(all("a[href^='#']", list).map((link) => [decoded(link.hash.slice(1)), link]));
    const seen = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        const link = links.get(target.id);
        if (isIntersecting) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
        if (isIntersecting) showIn(list.querySelector(".scroll"), link);
      }
    }, { rootMargin: "-30% 0px -70% 0px" }); // a line through the window
    for (const id of links.keys()) {
      const section = document.getElementById(id);
      if (section) seen.observe(section);
    }
  };

  // --- keys: j and k, /, ?

  const step = (sign) => {
    const edge = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
    const stops = all(".launch, .finding, .pair, .insight").filter((each) => each.checkVisibility());
    const tops = stops.map((each) => each.getBoundingClientRect().top - edge);
    const next = sign > 0 ? tops.findIndex((top) => top > 2) : tops.findLastIndex((top) => top < -2);
    stops[next]?.scrollIntoView({ block: "start" });
  };
  const search = () => {
    const field = all("input[type=search]").find((each) => each.checkVisibility()) ||
      document.querySelector(".beside input");
    field?.closest("details")?.setAttribute("open", "");
    field?.focus();
  };
  const KEYS = {
    j: ["next launch or finding", () => step(1)],
    k: ["previous launch or finding", () => step(-1)],
    "/": ["filter or search", search],
    "?": ["these keys", () => (help.open ? help.close() : help.showModal())],
  };
  const help = make("dialog", { ariaLabel: "Keys" }, make("h2", { textContent: "Keys" }),
    ...Object.entries(KEYS).map(([key, [what]]) => make("p", {}, make("kbd", { textContent: key }), ` ${what}`)));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") tip.hidden = true;
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key][1]();
  });

  // --- paper: evidence is printed, machine code is not

  const opened = [];
  addEventListener("beforeprint", () => {
    for (const each of all("details[data-print]:not([open])")) {
      each.open = true;
      opened.push(each);
    }
  });
  addEventListener("afterprint", () => {
    for (const each of opened.splice(0)) each.open = false;
  });

  // --- small screens: the memory chart would be too small to read, so its table is open instead

  if (matchMedia("(max-width: 36rem)").matches) {
    for (const each of all(".memory-chart > details")) each.open = true;
  }

  addThemeSwitch();
  all("table[data-sortable]").forEach(makeSortable);
  all("table[data-filter]").forEach(makeFilter);
  all("button[data-copy]").forEach(makeCopier);
  document.body.append(tip, help);
  all(".beside").forEach(followSections);
  all("svg title").forEach(makeTip);
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  revealHash();
})();
