// SPDX-License-Identifier: Apache-2.0
// The stages of a compilation: columns of lines, and what lines of all columns come from the same part of the script. Lines are shown
// as text only, never as HTML.

/**
 * @typedef {{name: string, doc?: string, lines: number[]}} Stage
 * @typedef {{file: string, source: string, facts: {name: string, value: string}[], lines: string[], at: number[][], stages: Stage[], bpf: number[], kernel: number[], loaded: {name: string, value: string}[], absent?: string, moved?: Object<string, number>}} Data
 * @typedef {{line: number, kind: "" | "plus" | "minus" | "gap", n?: number}} Row
 */

/** @returns {Promise<Data>} */
async function load() {
	const e = /** @type {HTMLElement} */ (document.getElementById("data")), text = e.textContent || "";
	e.remove();
	if (e.getAttribute("type") === "application/json") return JSON.parse(text);
	const raw = atob(text), bytes = new Uint8Array(raw.length);
	for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
	return JSON.parse(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text());
}

/** Which lines a pass left, removed and added (Myers). @param {number[]} a @param {number[]} b @returns {Row[]} */
function diff(a, b) {
	let head = 0, tail = 0;
	while (head < a.length && head < b.length && a[head] === b[head]) head++;
	while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
	const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail), n = x.length, m = y.length, limit = Math.min(n + m, 1500);
	/** @type {Row[]} */
	const middle = [];
	/** @type {Int32Array[]} */
	const trace = [];
	const v = new Int32Array(2 * limit + 3), o = limit + 1;
	let steps = -1;
	search: for (let d = 0; d <= limit; d++) {
		trace.push(v.slice());
		for (let k = -d; k <= d; k += 2) {
			let i = k === -d || k !== d && v[o + k - 1] < v[o + k + 1] ? v[o + k + 1] : v[o + k - 1] + 1;
			while (i < n && i - k < m && x[i] === y[i - k]) i++;
			v[o + k] = i;
			if (i >= n && i - k >= m) { steps = d; break search; }
		}
	}
	if (steps < 0) { // too different to search on
		middle.push(...x.map((line) => /** @type {Row} */ ({line, kind: "minus"})), ...y.map((line) => /** @type {Row} */ ({line, kind: "plus"})));
	} else {
		let i = n, j = m;
		for (let d = steps; d > 0; d--) {
			const w = trace[d], k = i - j, down = k === -d || k !== d && w[o + k - 1] < w[o + k + 1], k0 = down ? k + 1 : k - 1, i0 = w[o + k0], j0 = i0 - k0;
			const first = down ? i0 : i0 + 1; // of the equal lines after the change
			while (i > first) { i--; j--; middle.push({line: x[i], kind: ""}); }
			middle.push(down ? {line: y[j0], kind: "plus"} : {line: x[i0], kind: "minus"});
			i = i0;
			j = j0;
		}
		while (i > 0 && j > 0) { i--; j--; middle.push({line: x[i], kind: ""}); }
		middle.reverse();
	}
	const same = (/** @type {number[]} */ all) => all.map((line) => /** @type {Row} */ ({line, kind: ""}));
	return [...same(a.slice(0, head)), ...middle, ...same(a.slice(a.length - tail))];
}

/** Leaves out what is far from a change. @param {Row[]} rows @returns {Row[]} */
function changes(rows) {
	const near = new Uint8Array(rows.length);
	rows.forEach((r, i) => { if (r.kind) near.fill(1, Math.max(i - 3, 0), i + 4); });
	/** @type {Row[]} */
	const out = [];
	for (let i = 0; i < rows.length;) {
		if (near[i]) { out.push(rows[i++]); continue; }
		let k = i;
		while (k < rows.length && !near[k]) k++;
		out.push({line: -1, kind: "gap", n: k - i});
		i = k;
	}
	return out;
}

/** @param {Data} d */
function show(d) {
	/** @typedef {{box: HTMLElement, noun: string, rows: HTMLElement[], keys: Map<string, HTMLElement[]>, here: number}} Column */
	const says = el("p", {class: "says", role: "status"}), hint = "Point at a line, or move to it with the arrow keys: all columns mark what comes from the same part of the script.";
	says.textContent = hint;
	/** @type {Column[]} */
	const columns = [];
	/** @type {HTMLElement[]} */
	let marked = [];

	/** Marks what comes from a part of the script. @param {string[]} keys @param {Column | null} from */
	const mark = (keys, from) => {
		for (const e of marked) e.classList.remove("on");
		marked = [];
		/** @type {string[]} */
		const parts = [];
		for (const c of columns) {
			const found = keys.flatMap((k) => c.keys.get(k) || []);
			for (const e of found) e.classList.add("on");
			marked.push(...found);
			const rows = new Set(found.map((e) => e.closest(".row")));
			if (c.noun && rows.size) parts.push(rows.size + " " + c.noun + (rows.size === 1 ? "" : "s"));
			if (c === from || !found.length) continue;
			const box = c.box.getBoundingClientRect(), seen = found.some((e) => { const b = e.getBoundingClientRect(); return b.top >= box.top && b.bottom <= box.bottom; });
			if (!seen) c.box.scrollTop += found[0].getBoundingClientRect().top - box.top - 40;
		}
		says.textContent = keys.length ? "From " + (keys.length === 1 ? keys[0] : "line " + keys[0].split(":")[0]) + " of the script: " + (parts.join(", ") || "nothing is left") + "." : hint;
	};

	/** A column of lines. @param {string} name @param {string} noun */
	const column = (name, noun) => {
		const inner = el("div", {role: "presentation"}), box = el("div", {class: "code", tabindex: "0", role: "listbox", "aria-label": name}, inner), title = el("h2", {}, name);
		/** @type {Column} */
		const c = {box, noun, rows: [], keys: new Map(), here: -1};
		const id = "c" + columns.length + "-";
		columns.push(c);
		const go = (/** @type {number} */ i) => {
			if (c.rows[c.here]) { c.rows[c.here].classList.remove("here"); c.rows[c.here].setAttribute("aria-selected", "false"); }
			c.here = Math.min(Math.max(i, 0), c.rows.length - 1);
			const row = c.rows[c.here];
			if (!row) return;
			row.classList.add("here");
			row.setAttribute("aria-selected", "true");
			row.scrollIntoView({block: "nearest"});
			box.setAttribute("aria-activedescendant", row.id);
			mark((row.dataset.keys || "").split(" ").filter(Boolean), c);
		};
		box.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => {
			const step = /** @type {Object<string, number>} */ ({ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9})[e.key];
			if (step) go(c.here + step);
			else if (e.key === "Escape") mark([], null);
			else return;
			e.preventDefault();
		});
		box.addEventListener("mouseover", (/** @type {MouseEvent} */ e) => {
			const t = e.target instanceof Element ? e.target.closest("[data-keys]") : null;
			if (t instanceof HTMLElement) mark((t.dataset.keys || "").split(" ").filter(Boolean), c);
		});
		box.addEventListener("mouseleave", () => mark([], null));
		return {
			root: el("section", {}, title, box), title,
			/** @param {HTMLElement[]} rows */
			fill(rows) {
				c.rows = rows;
				c.keys = new Map();
				c.here = -1;
				box.removeAttribute("aria-activedescendant");
				rows.forEach((r, i) => { r.id = id + i; });
				inner.replaceChildren(...rows);
				for (const e of inner.querySelectorAll("[data-keys]")) {
					if (!(e instanceof HTMLElement) || e.dataset.part === "none") continue;
					const key = e.dataset.keys || "";
					const known = c.keys.get(key);
					if (known) known.push(e);
					else c.keys.set(key, [e]);
				}
				box.scrollTop = 0;
			},
		};
	};
	/** @param {Row} r */
	const row = (r) => {
		if (r.kind === "gap") return el("div", {class: "row gap", role: "option", "aria-selected": "false"}, "… " + r.n + " lines that did not change");
		const at = d.at[r.line], text = d.lines[r.line];
		return el("div", {class: "row " + r.kind + (/^\S.*[:{]$|^(func|program) /.test(text) ? " head" : ""), role: "option", "aria-selected": "false", "data-keys": at.length && r.kind !== "minus" ? at.join(":") : null, "aria-label": text.trim() ? null : "empty line"}, text || " ", at.length ? el("span", {class: "pos"}, at.join(":")) : null);
	};

	// The script: its parts begin where code comes from.
	const starts = new Map();
	for (const at of d.at) if (at.length) starts.set(at[0], (starts.get(at[0]) || new Set()).add(at[1]));
	const script = column("Script", "");
	const encoder = new TextEncoder(), decoder = new TextDecoder();
	script.fill(d.source.replace(/\n$/, "").split("\n").map((text, i) => {
		const column = (/** @type {number} */ c) => (d.moved || {})[i + 1 + ":" + c] || c; // in bytes of the text, which has escapes
		const bytes = encoder.encode(text), cols = /** @type {number[]} */ (Array.from(starts.get(i + 1) || [])).filter((c) => column(c) <= bytes.length).sort((a, b) => a - b);
		const e = el("div", {class: "row", role: "option", "aria-selected": "false", "data-keys": cols.length ? cols.map((c) => i + 1 + ":" + c).join(" ") : null, "data-part": "none", "aria-label": text.trim() ? null : "empty line"}, el("span", {class: "no", "aria-hidden": "true"}, String(i + 1)));
		e.append(decoder.decode(bytes.subarray(0, cols.length ? column(cols[0]) - 1 : bytes.length)) || (cols.length ? "" : " "));
		cols.forEach((c, k) => e.append(el("span", {"data-keys": i + 1 + ":" + c}, decoder.decode(bytes.subarray(column(c) - 1, k + 1 < cols.length ? column(cols[k + 1]) - 1 : bytes.length)))));
		return e;
	}));

	const code = column("Intermediate code", "line"), bpf = column("BPF instructions", "BPF instruction"), kernel = column("Kernel's instructions", "kernel instruction");
	const plain = (/** @type {number[]} */ lines) => lines.map((line) => row({line, kind: ""}));
	bpf.fill(plain(d.bpf));
	if (d.kernel.length) {
		kernel.fill(plain(d.kernel));
		kernel.title.after(...d.loaded.map((p) => el("p", {class: "note"}, p.name + ": " + p.value)));
	} else kernel.root.replaceChildren(kernel.title, el("p", {class: "note"}, d.absent || "The object is not loaded."));

	// The list of stages.
	let current = -1, only = false;
	const choose = (/** @type {number} */ i) => {
		if (i < 0 || i >= d.stages.length) return;
		current = i;
		const s = d.stages[i], before = i ? d.stages[i - 1].lines : s.lines, all = diff(before, s.lines), changed = all.some((r) => r.kind);
		code.title.textContent = s.name + (s.doc ? ": " + s.doc : "");
		code.fill((only && changed ? changes(all) : all).map(row));
		buttons.forEach((b, k) => b.setAttribute("aria-pressed", String(k === i)));
		document.documentElement.dataset.stage = String(i);
	};
	const buttons = d.stages.map((s, i) => {
		let plus = 0, minus = 0;
		if (i) {
			const n = new Map();
			for (const l of d.stages[i - 1].lines) n.set(l, (n.get(l) || 0) - 1);
			for (const l of s.lines) n.set(l, (n.get(l) || 0) + 1);
			for (const v of n.values()) if (v > 0) plus += v; else minus -= v;
		}
		const told = i && !plus && !minus ? el("span", {}, "no change") : el("span", {}, plus ? el("span", {class: "plus"}, "+" + plus) : null, plus && minus ? " " : null, minus ? el("span", {class: "minus"}, "−" + minus) : null);
		return el("button", {class: i && !plus && !minus ? "same" : "", "aria-pressed": "false", title: s.doc || null, onclick: () => choose(i)}, el("span", {}, s.name), told);
	});
	const list = el("ol", {}, ...buttons.map((b) => el("li", {}, b)));
	list.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => {
		const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
		if (!step) return;
		e.preventDefault();
		choose(current + step);
		buttons[current].focus();
	});
	const toggle = el("button", {"aria-pressed": "false", onclick() { only = !only; toggle.setAttribute("aria-pressed", String(only)); choose(current); }}, "Only changes");
	const nav = el("nav", {"aria-label": "Stages"}, el("h2", {}, "Stages"), list, el("div", {class: "tools"}, toggle));
	const facts = el("dl", {class: "facts"}, ...d.facts.map((f) => el("div", {}, el("dt", {}, f.name), el("dd", {}, f.value))));
	const head = el("header", {class: "top"}, el("div", {class: "headline"}, el("h1", {}, document.title), themeButton(() => {})), facts);
	/** @type {HTMLElement} */ (document.getElementById("app")).replaceChildren(head, says, el("main", {id: "stages", class: d.kernel.length ? "" : "alone"}, nav, script.root, code.root, bpf.root, kernel.root));
	choose(0);
}

followTheme(() => {});
load().then((d) => {
	show(d);
	document.documentElement.dataset.ready = document.documentElement.dataset.complete = String(Math.round(performance.now()));
}).catch((e) => {
	/** @type {HTMLElement} */ (document.getElementById("app")).replaceChildren(el("p", {class: "fatal", role: "alert"}, "This page cannot be shown: " + (e instanceof Error ? e.message : String(e))));
	throw e;
});
