// The source listing: colours of code, heat by a chosen column, search, line links, keys, and the
// details of a line beside the code. Without this script a line's details open below it.
"use strict";
(() => {
  const all = (selector, within) => [...within.querySelectorAll(selector)];
  const make = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const LINES = ".rows .line, .rows .text > li"; // of code
  const STOPS = "summary, .line, li"; // what the arrow keys go to
  const stopOf = (line) => (line.matches("details") ? line.firstElementChild : line);

  // --- colours: ranges of the text, so that no element is added

  const highlight = (name) => {
    if (!globalThis.Highlight) return null; // an old browser
    if (!CSS.highlights.has(name)) CSS.highlights.set(name, new Highlight());
    return CSS.highlights.get(name);
  };
  const range = (text, from, to) => new StaticRange({ startContainer: text, startOffset: from, endContainer: text, endOffset: to });
  const set = (words) => new Set(words.split(" "));
  const NUMBER = String.raw`\b(?:0x[\da-f']+|\d[\d']*\.?\d*(?:e[+-]?\d+)?)[a-z]*|\.\d+(?:e[+-]?\d+)?f?\b`;
  const WORD = String.raw`[a-z_]\w*`;
  const QUOTED = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`;
  const grammarWith = (comment, string, directive, words, types) => ({
    pattern: new RegExp(
      `(?<comment>${comment})|(?<string>${string})|(?<directive>${directive})|(?<number>${NUMBER})|(?<word>${WORD})`, "gim"),
    words: set(words), types: set(types),
  });
  const C = grammarWith(
    String.raw`//.*|/\*[^]*?(?:\*/|(?![^]))`, String.raw`R"(?<raw>[^\s(]*)\([^]*?\)\k<raw>"|${QUOTED}`,
    String.raw`^[ \t]*#[ \t]*\w+`,
    "alignas alignof asm auto break case catch class concept const consteval constexpr constinit continue default delete do else enum explicit extern false final for friend goto if inline mutable namespace new noexcept nullptr operator override private protected public register requires restrict return sizeof static static_assert static_cast const_cast reinterpret_cast dynamic_cast struct switch template this throw true try typedef typename union using virtual volatile while",
    "bool char double float half half2 int long short signed unsigned void wchar_t dim3 nv_bfloat16 threadIdx blockIdx blockDim gridDim warpSize",
  );
  const PYTHON = grammarWith(
    "#.*", String.raw`[rbuf]{0,2}(?:"""[^]*?(?:"""|(?![^]))|'''[^]*?(?:'''|(?![^]))|${QUOTED})`, String.raw`^[ \t]*@[\w.]+`,
    "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return True try while with yield",
    "bool bytes dict float int list range self set str tuple constexpr tl",
  );
  const FORTRAN = grammarWith(
    String.raw`!(?!\$).*`, QUOTED, String.raw`^[ \t]*!\$\w+`,
    "allocate associate attributes block call case contains continue cycle deallocate do else elseif end enddo endif exit function if implicit in inout intent interface module none only out parallel parameter pointer procedure program pure result return save select shared subroutine then to use value where while concurrent",
    "character complex dimension device double integer logical precision real type",
  );
  const grammarOf = (path) =>
    /\.(py|jl|mojo)$/i.test(path) ? PYTHON : /\.(f|f\d\d|cuf)$/i.test(path) ? FORTRAN : C;
  const kindOf = (grammar, { word: written, ...others }) => {
    if (written === undefined) return Object.keys(others).find((kind) => others[kind] !== undefined && kind !== "raw");
    const { words, types } = grammar, word = grammar === FORTRAN ? written.toLowerCase() : written;
    if (words.has(word) || /^__\w+__$/.test(word)) return "keyword";
    return types.has(word) || /^u?int\d+_t$|^(float|double|u?int)[234]$/.test(word) ? "type" : "";
  };
  // What belongs to lines of a closed fold is done when it opens: most long files are mostly folded.
  const later = new Map();
  const foldOf = (line) => line.closest("details.cold:not([open])");
  const whenSeen = (fold, act) => {
    if (!fold) act(); else if (later.has(fold)) later.get(fold).push(act); else later.set(fold, [act]);
  };
  const seen = (fold) => {
    for (const act of later.get(fold) || []) act();
    later.delete(fold);
  };

  // `texts`: text nodes of lines that follow each other, from line `first` on.
  const colour = (texts, first, grammar) => {
    const folds = texts.map((text) => foldOf(text.parentElement));
    const whole = texts.map((text) => text.data).join("\n");
    // Lines before the first may be left out, and with them the start of a comment.
    const open = first > 1 && grammar === C && /^(?:(?!\/\*)[^])*?\*\//.exec(whole);
    let line = 0, start = 0;
    const add = (kind, from, to) => {
      for (;;) {
        const end = start + texts[line].length;
        if (from < end) {
          const own = [texts[line], Math.max(from, start) - start, Math.min(to, end) - start];
          whenSeen(folds[line], () => highlight(kind).add(range(...own)));
        }
        if (to <= end || line + 1 === texts.length) return;
        start = end + 1;
        line += 1;
      }
    };
    if (open) add("comment", 0, open[0].length);
    grammar.pattern.lastIndex = open ? open[0].length : 0;
    for (let token; (token = grammar.pattern.exec(whole));) {
      const kind = kindOf(grammar, token.groups);
      if (kind) add(kind, token.index, token.index + token[0].length);
    }
  };

  // --- numbers, as keet writes them

  const shareText = (share) => {
    const percent = 100 * share;
    return percent > 0 && percent < 0.05 ? "<0.1%" : `${percent.toFixed(1)}%`;
  };
  const compact = (count) => {
    const [scale, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([least]) => count >= least) || [1, ""];
    return scale === 1 ? String(count) : `${Number((count / scale).toPrecision(3))}${letter}`;
  };

  // --- one listing

  const beside = matchMedia("screen and (min-width: 1100px)");

  const setUp = (listing) => {
    const files = listing.querySelector(".files");
    const lines = all(LINES, files);
    const rows = lines.filter((line) => line.dataset.v !== undefined);
    const columns = listing.dataset.columns.split("|").map((each) => {
      const at = each.lastIndexOf(":");
      return { name: each.slice(0, at), total: Number(each.slice(at + 1)) };
    });
    const steps = listing.dataset.steps.split(" ").map(Number);
    const values = new Map(rows.map((row) => [row, row.dataset.v.split(",").map((v) => (v ? Number(v) : null))]));
    const reveal = (line, focus) => {
      for (let part = line.parentElement; part !== listing; part = part.parentElement) {
        if (part.matches("details")) part.open = true;
      }
      const stop = stopOf(line);
      stop.scrollIntoView({ block: "center" });
      if (focus) { move(stop); stop.focus({ preventScroll: true }); }
    };

    const linkNumber = (line, number) => {
      const link = make("a", { className: "n", href: `#${line.id}`, tabIndex: -1 });
      if (line.localName === "li") { // the number is a counter of the style
        link.setAttribute("aria-label", String(number));
        line.prepend(link);
      } else {
        link.append(line.querySelector(".n").textContent);
        line.querySelector(".n").replaceWith(link);
      }
    };

    // Text, number and address of each line.
    const code = new Map();
    for (const section of all("section.file", files)) {
      const grammar = grammarOf(section.querySelector("h4 .mono")?.textContent || "");
      let run = [], first = 1, last = 0;
      const finish = (next) => {
        if (run.length && globalThis.Highlight) colour(run, first, grammar);
        [run, first] = [[], next];
      };
      for (const line of all(".line, .text > li", section)) {
        const isText = line.localName === "li";
        const cell = isText ? line : stopOf(line).querySelector("code");
        const text = cell.firstChild?.nodeType === Node.TEXT_NODE ? cell.firstChild : null;
        const number = !isText ? Number(line.querySelector(".n").textContent)
          : line.previousElementSibling ? last + 1 : line.parentElement.start;
        if (section.dataset.lines) {
          if (!line.id) line.id = `${section.dataset.lines}${number}`;
          line.classList.add("line");
          if (number !== last + 1) finish(number);
          if (text) run.push(text);
        }
        last = number;
        code.set(line, { cell, text, number });
        if (line.id) whenSeen(foldOf(line), () => linkNumber(line, number));
      }
      finish();
    }

    // --- heat

    let column = 0, ranked = [], at = -1;
    const rank = () => {
      ranked = rows.filter((row) => values.get(row)[column]).sort((a, b) => values.get(b)[column] - values.get(a)[column]);
      at = -1;
    };
    const paint = () => {
      const { name, total } = columns[column];
      const isOfSamples = name === "samples" || name === "waits";
      for (const row of rows) {
        const value = values.get(row)[column], stop = stopOf(row);
        const step = steps.filter((least) => value / total >= least).length;
        const cell = stop.querySelector(".share"), bar = stop.querySelector(".bar-of");
        cell.textContent = value === null ? "?" : value ? shareText(value / total) : "";
        cell.className = step ? `share heat-${step}` : "share";
        bar.dataset.count = isOfSamples || !value ? "" : compact(value);
        cell.title = value ? `${value.toLocaleString("en")} of ${total.toLocaleString("en")} ${name}` : "";
      }
      for (const head of all(".heads .share", files)) head.textContent = name;
      listing.dataset.heat = isOfSamples ? name : "count";
      rank();
    };
    const select = make("select", { title: "What the numbers and colours of lines are" }, ...columns.map(({ name }) => make("option", {}, name)));
    select.setAttribute("aria-label", "Heat by");
    select.addEventListener("change", () => { column = select.selectedIndex; paint(); });
    const hottest = (step) => {
      if (!ranked.length) return;
      at = at < 0 ? 0 : (at + step + ranked.length) % ranked.length;
      if (beside.matches && ranked[at].matches("details")) ranked[at].open = true;
      reveal(ranked[at], true);
      status.textContent = `${at + 1} of ${ranked.length} by ${columns[column].name}`;
    };
    const button = (label, title, act) => {
      const made = make("button", { type: "button", title }, label);
      made.addEventListener("click", act);
      return made;
    };

    // --- search

    let hits = [], hit = -1;
    const search = make("input", { type: "search", placeholder: "Search code and SASS" });
    search.setAttribute("aria-label", "Search code and SASS; Enter goes to the next match");
    const status = make("span", { className: "muted" });
    status.setAttribute("role", "status");
    const sassOf = (line) => (line === shown ? panel : line).querySelector(".inside .sass")?.textContent.toLowerCase() || "";
    const seek = () => {
      const wanted = search.value.toLowerCase(), marks = highlight("search");
      const number = /^:(\d+)$/.exec(wanted)?.[1];
      for (const line of hits) line.classList.remove("hit", "hit-now");
      marks?.clear();
      hit = -1;
      hits = !wanted ? [] : lines.filter((line) => {
        const { cell, text, number: own } = code.get(line);
        if (number) return own === Number(number);
        const words = text ? text.data.toLowerCase() : cell.textContent.toLowerCase();
        for (let from = words.indexOf(wanted); marks && text && from >= 0; from = words.indexOf(wanted, from + wanted.length)) {
          marks.add(range(text, from, from + wanted.length));
        }
        return words.includes(wanted) || sassOf(line).includes(wanted);
      });
      for (const line of hits) line.classList.add("hit");
      status.textContent = wanted ? `${hits.length} ${hits.length === 1 ? "line" : "lines"}` : "";
    };
    const nextHit = (step) => {
      if (!hits.length) return;
      hits[hit]?.classList.remove("hit-now");
      hit = hit < 0 && step < 0 ? hits.length - 1 : (hit + step + hits.length) % hits.length;
      hits[hit].classList.add("hit-now");
      reveal(hits[hit], false);
      status.textContent = `${hit + 1} of ${hits.length}`;
    };
    search.addEventListener("input", seek);
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { search.value = ""; seek(); }
    });

    const allSass = button("All SASS", "Executed instructions of all lines, in the order of the code", () => showWhole());
    allSass.hidden = !files.querySelector(".sass");
    allSass.ariaPressed = "false";
    const tools = make("div", { className: "tools" }, select,
      button("\u2191", "Hotter line (key H)", () => hottest(-1)), button("Next hottest \u2193", "Next hottest line by the chosen column (key h)", () => hottest(1)), search, allSass, status);
    tools.setAttribute("role", "toolbar");
    tools.setAttribute("aria-label", "Source listing");

    // --- the panel beside the code: what an open line shows is moved there

    let shown = null, wanted = "";
    const where = make("p", { className: "where" });
    where.setAttribute("role", "status");
    const panel = make("div", { className: "panel-of-line", tabIndex: 0 }, where);
    panel.setAttribute("role", "region");
    panel.setAttribute("aria-label", "The selected line");
    const side = make("div", { className: "side" }, panel);
    const putBack = () => {
      shown?.append(panel.lastChild);
      shown = null;
      where.replaceChildren();
    };
    const show = (line) => {
      if (line === shown) return;
      const before = shown;
      putBack();
      if (before) before.open = false;
      shown = line;
      const { text, cell, number } = code.get(line);
      const file = line.closest("section").querySelector("h4 .mono")?.textContent;
      where.append(make("b", {}, file && line.id ? `${file}:${number}` : line.querySelector(".n").textContent), " ", make("code", {}, (text || cell.firstChild).textContent.trim()));
      panel.append(line.lastElementChild);
      if (before) panel.scrollTop = 0; // at load it would only cost a layout of the page
      follow();
    };

    // --- machine code: one element per instruction of an open line

    const rowsOf = (sass) => {
      if (sass.dataset.split) return all(".i", sass);
      sass.dataset.split = "yes";
      const made = [make("span", { className: "i" })];
      for (const node of [...sass.childNodes]) {
        const pieces = node.nodeType === Node.TEXT_NODE ? node.data.split("\n") : [node];
        pieces.forEach((piece, n) => {
          if (n) made.push(make("span", { className: "i" }));
          if (piece.localName === "mark") {
            made.at(-1).classList.add(piece.className);
            made.at(-1).append(...piece.childNodes);
          } else if (piece) made.at(-1).append(piece);
        });
      }
      sass.replaceChildren(...made.filter((row) => row.textContent));
      const column = sass.textContent.indexOf("instruction");
      sass.style.setProperty("--instruction", `${column}ch`);
      for (const row of sass.children) markWait(row, column);
      return all(".i", sass);
    };
    // What an instruction waits for stays together. It follows the instruction and two spaces.
    const markWait = (row, column) => {
      const text = row.firstChild, before = /^\S.*?\s\s+(?=\S)/.exec(text.data?.slice(column));
      if (!before) return;
      const own = new Range(), wait = make("span", { className: "wait" });
      own.setStart(text, column + before[0].length);
      own.setEndAfter(row.lastChild);
      wait.append(own.extractContents());
      own.insertNode(wait);
      const awaited = awaitedBy(row);
      if (!awaited || wait.children.length) return;
      // The producer belongs to the same line: a link to its row.
      const link = wait.firstChild.splitText(wait.textContent.lastIndexOf(awaited));
      link.replaceWith(make("a", { href: "#" }, link.data));
    };
    const offsetOf = (row) => /0x[0-9a-f]{4,}/.exec(row.textContent)?.[0];
    const awaitedBy = (row) => / at (0x[0-9a-f]{4,})/.exec(row.querySelector(".wait")?.textContent)?.[1];
    const point = (sass, offset) => { // at an instruction, and at both ends of its waits
      const row = rowsOf(sass).find((each) => offsetOf(each) === offset);
      if (!row) return;
      for (const each of rowsOf(sass)) {
        each.classList.toggle("at", each === row);
        each.classList.toggle("producer", each !== row && offsetOf(each) === awaitedBy(row));
        each.classList.toggle("waiting", each !== row && awaitedBy(each) === offset);
      }
      row.scrollIntoView({ block: "nearest" });
      return row;
    };
    const prepare = (inside) => {
      const sass = inside.querySelector(".inside .sass");
      if (!sass) return;
      rowsOf(sass);
      if (wanted) point(sass, wanted);
      wanted = "";
    };
    const opened = (line) => {
      if (beside.matches) show(line);
      prepare(line === shown ? panel : line);
    };
    files.addEventListener("toggle", (event) => {
      const line = event.target;
      if (line.matches(".cold")) seen(line);
      if (!line.matches("details.line")) return;
      if (line.open) opened(line); else if (line === shown) putBack();
    }, true);

    // --- all machine code, made from that of the lines when it is asked for

    let whole = null;
    const lineOf = new Map(); // of a row
    const copyOf = (row, head) => {
      const text = row.firstChild.data, start = head.indexOf("instruction");
      const numbers = text.slice(0, start).trimEnd();
      const hasSamples = numbers.length === head.lastIndexOf("samples", start) + "samples".length;
      const offset = offsetOf(row).padEnd(9), samples = hasSamples ? numbers.split(/\s/).at(-1) : "";
      const heat = [...row.classList].find((name) => name.startsWith("heat")) || "i";
      const copy = make("span", { className: `i ${heat}` }, `  ${offset}${samples.padStart(7)}  ${text.slice(start).trimEnd()}  `);
      if (row.querySelector(".wait")) copy.append(row.querySelector(".wait").cloneNode(true));
      return copy;
    };
    const showWhole = () => {
      const isShown = !whole;
      whole?.remove();
      whole = null;
      lineOf.clear();
      if (isShown) makeWhole();
      allSass.ariaPressed = String(!!whole);
    };
    const makeWhole = () => {
      let missing = 0;
      for (const line of rows) {
        const sass = (line === shown ? panel : line).querySelector(".inside .sass");
        if (!sass) { missing += 1; continue; }
        const [head, ...own] = rowsOf(sass);
        for (const row of own) lineOf.set(copyOf(row, head.textContent), line);
      }
      const copies = [...lineOf.keys()].sort((a, b) => parseInt(offsetOf(a), 16) - parseInt(offsetOf(b), 16));
      if (new Set(copies.map(offsetOf)).size < copies.length) {
        status.textContent = "Several functions: offsets repeat";
        return;
      }
      const left = missing ? ` (without ${missing} ${missing === 1 ? "line" : "lines"}, left out for the size of the page)` : "";
      const head = make("span", { className: "i" }, make("b", {}, `  offset   samples  instruction${left}`));
      whole = make("pre", { className: "sass whole", tabIndex: 0 }, head, ...copies);
      whole.dataset.split = "yes";
      whole.style.setProperty("--instruction", "20ch");
      whole.setAttribute("role", "region");
      whole.setAttribute("aria-label", "SASS of all lines");
      where.after(whole);
      follow();
    };
    const follow = () => { // the rows of the selected line
      if (!whole) return;
      const own = all(".i", whole).filter((row) => row.classList.toggle("own", !!shown && lineOf.get(row) === shown));
      const seen = own.some((row) => row.offsetTop >= whole.scrollTop && row.offsetTop < whole.scrollTop + whole.clientHeight);
      if (own.length && !seen) whole.scrollTop = own[0].offsetTop - 60;
    };

    files.addEventListener("click", (event) => {
      const row = event.target.closest(".i"), link = event.target.closest("a");
      if (!row) return;
      if (whole?.contains(row)) {
        event.preventDefault();
        const line = lineOf.get(point(whole, link ? awaitedBy(row) : offsetOf(row)));
        if (line) { line.open = true; reveal(line, false); }
        return;
      }
      const sass = row.closest(".sass"), line = panel.contains(row) ? shown : row.closest("details.line");
      if (link?.hash) { // to another line: its panel opens at the instruction
        wanted = awaitedBy(row);
        const target = document.getElementById(link.hash.slice(1));
        if (target?.open) prepare(target);
        return;
      }
      if (link) event.preventDefault();
      point(sass, link ? awaitedBy(row) : offsetOf(row));
      if (!link) stopOf(line).scrollIntoView({ block: "nearest" });
    });

    // --- keys

    let current = null;
    const move = (stop) => { // one line is reached by Tab, the others by arrow keys
      if (current) current.tabIndex = -1;
      current = stop;
      current.tabIndex = 0;
    };
    const stops = () => all(STOPS, files).filter((stop) => stop.closest(".rows") && !stop.matches("details, .inside *") && stop.checkVisibility());
    for (const group of all(".rows", files)) group.dataset.arrows = "yes";
    for (const stop of all(".rows summary", files)) stop.tabIndex = -1;
    files.addEventListener("focusin", (event) => {
      if (event.target.matches(".rows :is(summary, .line, li)") && !event.target.matches(".inside *")) move(event.target);
    });
    files.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target !== current) return;
      const keys = {
        ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowRight: () => { if (shown) panel.focus(); },
        h: () => hottest(1), H: () => hottest(-1), n: () => nextHit(1), N: () => nextHit(-1), "/": () => search.focus(),
      };
      const step = (by) => {
        const own = stops(), next = own[own.indexOf(current) + by];
        if (!next) return;
        move(next);
        next.focus();
        if (shown && next.matches(".line > summary")) next.parentElement.open = true;
      };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    panel.addEventListener("keydown", (event) => {
      if (["Escape", "ArrowLeft"].includes(event.key)) current?.focus();
    });
    files.addEventListener("keydown", (event) => { // within machine code
      const sass = event.target.closest(".sass"), by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!sass || event.target !== sass) return;
      const own = rowsOf(sass).slice(1), at = own.findIndex((row) => row.classList.contains("at"));
      if (by) point(sass, offsetOf(own[Math.min(Math.max(at + by, 0), own.length - 1)]));
      else if (event.key === "Enter") own[at]?.querySelector("a")?.click();
      else return;
      event.preventDefault();
    });

    const arrange = () => {
      listing.classList.toggle("split", beside.matches);
      if (beside.matches) { side.prepend(tools); files.append(side); } else { files.before(tools); side.remove(); }
      const line = shown || files.querySelector("details.line[open]");
      if (!beside.matches) putBack();
      if (line) { line.open = true; opened(line); }
    };
    const first = files.querySelector("details.line[open]") || rows[0];
    if (first) move(stopOf(first));
    rank();
    arrange();
    beside.addEventListener("change", arrange);
  };

  document.querySelectorAll(".listing").forEach(setUp);
})();
