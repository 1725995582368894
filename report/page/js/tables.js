// SPDX-License-Identifier: Apache-2.0
// Tables that sort and filter.

/**
 * @typedef {{title: string, n?: boolean, text(row: number): string, value?(row: number): number, bar?(row: number): number, base?(row: number): number, style?(row: number): string, line?: boolean, head?: boolean}} Col
 */

/** The element that would be at n if all were sorted (quickselect). @param {Float64Array} v is permuted @param {number} n */
function nth(v, n) {
	for (let lo = 0, hi = v.length - 1; lo < hi;) {
		const x = v[(lo + hi) >> 1];
		let i = lo, j = hi;
		while (i <= j) {
			while (v[i] < x) i++;
			while (v[j] > x) j--;
			if (i <= j) { const t = v[i]; v[i++] = v[j]; v[j--] = t; }
		}
		if (n <= j) hi = j;
		else if (n >= i) lo = i;
		else break;
	}
	return v[n];
}

/** A table of which only the visible rows are in the document.
 * @param {string} label @param {Col[]} cols @param {() => number} rows @param {{sort?: number, down?: boolean, search?: (row: number) => string, pick?: (row: number) => void, picked?: () => number, noun?: string, total?: number, keep?: (row: number) => boolean}} o */
function grid(label, cols, rows, o) {
	const H = 22, noun = o.noun || "rows";
	let sort = o.sort === undefined ? -1 : o.sort, down = o.down !== false, pattern = /** @type {((s: string) => boolean) | null} */ (null);
	/** @type {Int32Array} */
	let order = new Int32Array(0);
	/** @type {(string | undefined)[]} */
	let texts = [];
	const HEAD = 1000;
	/** @type {{from: number, by(a: number, b: number): number} | null} rows from here on are not sorted */
	let rest = null;
	const tbody = el("tbody");
	const heads = cols.map((c, i) => {
		if (!c.value && !c.text || c.bar) return el("th", {scope: "col"}, el("span", {class: "hidden"}, c.title));
		if (o.sort === undefined) return el("th", {scope: "col", class: c.n ? "n" : ""}, el("span", {}, c.title));
		const b = el("button", {onclick() { if (sort === i) down = !down; else { sort = i; down = !!c.n; } arrange(); }}, c.title);
		return el("th", {scope: "col", class: c.n ? "n" : (c.line ? "line" : "") + (c.head ? " head" : "")}, b);
	});
	const table = el("table", {"aria-label": label}, el("thead", {}, el("tr", {"aria-rowindex": 1}, ...heads)), tbody);
	const box = el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label}, table);
	const found = el("span", {class: "status", role: "status"});

	const arrange = () => {
		const n = rows(), all = new Int32Array(n);
		let k = 0;
		for (let i = 0; i < n; i++) {
			if (o.keep && !o.keep(i)) continue;
			if (pattern && o.search) {
				const text = texts[i] ?? (texts[i] = o.search(i));
				if (!pattern(text)) continue;
			}
			all[k++] = i;
		}
		order = all.subarray(0, k);
		rest = null;
		const c = cols[sort];
		if (c) {
			if (c.value) {
				const v = new Float64Array(n), value = c.value;
				for (let j = 0; j < k; j++) v[order[j]] = value.call(c, order[j]);
				const by = (/** @type {number} */ a, /** @type {number} */ b) => (down ? v[b] - v[a] : v[a] - v[b]) || a - b;
				if (k > 4 * HEAD) { // the first rows are sorted now, the others when they are seen
					const all = new Float64Array(k), head = [], tail = new Int32Array(k);
					for (let j = 0; j < k; j++) all[j] = v[order[j]];
					const limit = nth(all, down ? k - HEAD : HEAD - 1);
					let others = 0;
					for (let j = 0; j < k; j++) {
						const i = order[j];
						if (down ? v[i] > limit : v[i] < limit) head.push(i);
						else tail[others++] = i;
					}
					head.sort(by);
					order.set(head);
					order.set(tail.subarray(0, others), head.length);
					rest = {from: head.length, by};
				} else order.sort(by);
			} else {
				const v = new Map();
				for (const i of order) v.set(i, c.text(i));
				order.sort((a, b) => { const x = v.get(a), y = v.get(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1) || a - b; });
			}
		}
		heads.forEach((h, i) => { if (o.sort !== undefined) { if (i === sort) h.setAttribute("aria-sort", down ? "descending" : "ascending"); else h.removeAttribute("aria-sort"); } });
		heads.forEach((h, i) => { const b = h.querySelector("button"); if (b) b.textContent = cols[i].title + (i === sort ? down ? " ▾" : " ▴" : ""); });
		table.setAttribute("aria-rowcount", k + 1);
		const of = o.total === undefined ? n : o.total;
		found.textContent = count(k) + (k < of ? " of " + count(of) : "") + " " + (k === 1 && k === of ? noun.replace(/s$/, "") : noun);
		box.dataset.rows = k;
		drawn = "";
		draw();
	};
	let drawn = "", top = 0;
	const draw = () => {
		if (rest && (top + 2000) / H > rest.from) { order.subarray(rest.from).sort(rest.by); rest = null; }
		const first = Math.max(Math.floor(top / H) - 10, 0), last = Math.min(first + 52, order.length);
		const now = first + "-" + last;
		if (now === drawn) return;
		drawn = now;
		/** @type {Node[]} */
		const out = [];
		/** @param {number} n */
		const gap = (n) => { if (n > 0) { const td = el("td", {colspan: cols.length}); td.style.height = n * H + "px"; out.push(el("tr", {"aria-hidden": "true"}, td)); } };
		gap(first);
		for (let k = first; k < last; k++) {
			const i = order[k];
			const tr = el("tr", {"aria-rowindex": k + 2});
			for (const c of cols) {
				if (c.bar) {
					const bar = el("i");
					const share = Math.max(Math.min(c.bar(i), 1), 0);
					bar.style.width = share > 0 ? "max(1.5px, " + 100 * share + "%)" : "0";
					if (c.base) { const b = el("b"); b.style.left = "calc(" + 100 * Math.min(c.base(i), 1) / Math.max(c.bar(i), 1e-9) + "% - 1px)"; bar.append(b); }
					tr.append(el("td", {class: "bar"}, bar));
					continue;
				}
				const text = c.text(i);
				tr.append(el("td", {class: (c.n ? "n" : "") + (c.line ? " line" : "") + (c.style ? " " + c.style(i) : ""), title: text.length > 60 && !c.line ? text : null}, text));
			}
			if (o.pick) {
				const pick = o.pick;
				tr.className = "pickable";
				tr.setAttribute("aria-selected", String(o.picked && o.picked() === i));
				tr.tabIndex = 0;
				tr.addEventListener("click", () => { pick(i); drawn = ""; draw(); });
				tr.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => { if (e.key === "Enter" || e.key === " ") { pick(i); e.preventDefault(); drawn = ""; draw(); } });
			}
			out.push(tr);
		}
		gap(order.length - last);
		tbody.replaceChildren(...out);
	};
	box.addEventListener("scroll", () => { top = box.scrollTop; draw(); });
	const search = o.search ? searchBox("Filter", (text) => { pattern = matcher(text); box.scrollTop = top = 0; arrange(); }) : null;
	const root = el("div", {}, search ? el("div", {class: "tools"}, search, found) : null, box);
	return {root, arrange, redraw() { drawn = ""; draw(); }};
}
