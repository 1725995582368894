// SPDX-License-Identifier: Apache-2.0
// A card for each map, for the lines that the script printed, and for the figures of scalars.

/** @param {string} text */
const strong = (text) => el("b", {}, text);

/** A card of a map. @param {RawMap} m @param {string} what */
function card(m, what) {
	const title = el("div", {class: "title"}, el("h2", {}, el("span", {class: "mono"}, m.name)), el("span", {class: "kind"}, what));
	if (m.line) title.append(el("a", {class: "kind", href: "#clause-" + clauseAt(m.line)}, "line " + m.line));
	const says = el("p", {class: "answer"});
	const root = el("section", {class: "card", id: "map-" + m.name.replace(/[^A-Za-z0-9_]/g, ""), "aria-label": m.name}, title, m.help ? el("p", {class: "note"}, m.help) : null, says);
	const notes = [];
	if (m.joined) notes.push("Each column is " + m.joined + " intervals of the run.");
	if (m.samples && m.samples.omitted) notes.push("The page has the first " + count(m.samples.t.length) + " stacks; " + count(m.samples.omitted) + " are omitted: --from and --to select others.");
	if (m.omitted) notes.push("The page has the " + count(m.rows) + " elements with the largest values; " + count(m.omitted.rows) + " others have " + count(num(m.omitted.value)) + " in all.");
	if (notes.length) root.append(el("p", {class: "note"}, notes.join(" ")));
	return {root, says};
}

/** @param {number} line */
function clauseAt(line) {
	const all = state.data.script.clauses || [];
	for (let i = 0; i < all.length; i++) if (line >= all[i].line && line <= all[i].end) return i;
	return 0;
}

/** The map of the base with the same name and meaning. @param {RawMap} m @returns {RawMap | null} */
function ofBase(m) {
	return state.base && state.base.maps.find((x) => x.name === m.name && x.shape === m.shape && (x.keys || []).length === (m.keys || []).length) || null;
}

/** @param {RawMap} m */
function baseTable(m) {
	const b = ofBase(m);
	return b ? new Table(b) : null;
}

/** The rows of the base by their keys. @param {Table} b */
function rowsByKey(b) {
	/** @type {Map<string, number>} */
	const rows = new Map();
	for (let i = 0; i < b.rows; i++) rows.set(b.key(i), i);
	return rows;
}

/** The rows with the largest values. @param {Float64Array} v @param {number} n */
function largest(v, n) {
	/** @type {number[]} */
	const best = [];
	for (let i = 0; i < v.length; i++) {
		if (!(v[i] > 0)) continue;
		if (best.length === n && v[i] <= v[best[n - 1]]) continue;
		let k = best.length;
		while (k && v[best[k - 1]] < v[i]) k--;
		best.splice(k, 0, i);
		if (best.length > n) best.pop();
	}
	return best;
}

/** Groups of rows for a picture over time: those with the largest values of a part of the key, and the others. @param {Table} t @param {number} part -1: the whole key @param {number} n */
function groupsOf(t, part, n) {
	const v = t.values(null);
	/** @type {Ints} */
	let ids = [], names = /** @type {string[]} */ ([]);
	if (part >= 0) {
		const k = /** @type {Key[]} */ (t.m.keys)[part];
		ids = k.at;
		names = k.texts;
	} else {
		ids = new Int32Array(t.rows).map((_, i) => i);
	}
	const sums = new Float64Array(part >= 0 ? names.length : t.rows);
	for (let i = 0; i < t.rows; i++) if (v[i] > 0) sums[ids[i]] += v[i];
	let top = largest(sums, n);
	let others = 0;
	let used = 0;
	for (let i = 0; i < sums.length; i++) if (sums[i] > 0) used++;
	if (used > top.length && !t.m.level) { others = used - top.length + 1; top = top.slice(0, n - 1); }
	const at = new Int32Array(sums.length).fill(others ? top.length : -1);
	top.forEach((g, i) => { at[g] = i; });
	const labels = top.map((g) => part >= 0 ? names[g] : t.label(g) || t.m.name);
	if (others) labels.push(others + " others");
	return {labels, group: (/** @type {number} */ row) => at[ids[row]]};
}

/** The part of the key that says most about rows: the first text that is not the host. @param {Table} t */
function mainPart(t) {
	const keys = t.m.keys || [];
	if (keys.length <= 1) return keys.length - 1;
	for (let i = t.m.host ? 1 : 0; i < keys.length; i++) if (!keys[i].numeric) return i;
	return t.m.host ? 1 : 0;
}

/** @param {Table} t @param {(v: number) => string} show */
function flameCard(t, show) {
	const base = baseTable(t.m), m = t.m;
	const {root, says} = card(m, m.events ? "events with stacks" + (m.shape === "count" ? "" : ", by their duration") : "stacks, " + (m.shape === "count" ? "samples" : m.shape) + (t.unit ? " in " + t.unit : ""));
	if (m.cut) {
		const of = num(m.cut.of), why = [[m.cut.depth, "have as many frames as the script asks for"], [m.cut.unwind, "could not be unwound to the end"], [m.cut.lost, "were lost"]];
		root.append(el("ul", {class: "health"}, ...why.filter(([n]) => num(/** @type {Num} */ (n))).map(([n, text]) => el("li", {class: "warning"}, percent(num(/** @type {Num} */ (n)) / of) + " of the stacks " + text))));
	}
	const views = /** @type {View[]} */ ([]);
	if (t.samples) {
		const s = t.samples, h = subsecondMap("Heat map of " + m.name + " over time", t, s, show);
		root.append(h.root, el("p", {class: "note kindofmap"}, "A column is " + duration(s.width * 1e6) + ", and each of its cells, from the bottom to the top, " + duration(s.width * 1e6 / s.rows) + ": the stacks are events, at the times "
			+ (s.clock ? "that the script printed" : "when btrun read them, which may be later by some milliseconds") + ". A selected range shows its own flame graph."));
		views.push({update: h.redraw, redraw: h.redraw});
	} else if (t.columns.length > 1) {
		const {labels, group} = groupsOf(t, m.keys && m.keys.length ? m.host ? 0 : mainPart(t) : -1, 9);
		const single = !m.keys || !m.keys.length;
		const partName = single ? "" : (m.keys || [])[m.host ? 0 : mainPart(t)].name;
		const h = heatMap("Heat map of " + m.name + " over time", t, single ? {labels: ["all"], values: t.matrix(() => 0, 1), show} : {labels, values: t.matrix(group, labels.length), show});
		root.append(h.root, el("p", {class: "note kindofmap"}, "Columns are intervals of the run (--every, or print()), and rows are " + (single ? "all stacks" : "the largest" + (/^key\d*$/.test(partName) ? " of the key" : " by " + partName)) + ": a selected range shows its own flame graph."));
		views.push({update: h.redraw, redraw: h.redraw});
	}
	if (m.host && m.keys) {
		const hosts = m.keys[0], sums = new Float64Array(hosts.texts.length), v = t.values(null);
		for (let r = 0; r < t.rows; r++) if (v[r] > 0) sums[hosts.at[r]] += v[r];
		const top = largest(sums, 8).sort((a, b) => hosts.texts[a] < hosts.texts[b] ? -1 : 1), linked = /** @type {Linked[]} */ ([]);
		if (top.length > 1) {
			const grid_ = el("div", {class: "hosts"});
			for (const h of top) {
				const one = flame(t, null, show, {keep: (r) => hosts.at[r] === h, name: hosts.texts[h], linked}), title = el("h3", {class: "note"});
				grid_.append(el("div", {}, title, one.root));
				views.push({update() { one.update(); title.textContent = hosts.texts[h] + ": " + show(one.total()); }, redraw: one.redraw});
			}
			root.append(el("h3", {class: "note"}, "Hosts side by side" + (top.length < sums.length ? ", the " + top.length + " of " + sums.length + " with the largest values" : "") + ": they zoom and search together"), grid_, el("h3", {class: "note"}, "All hosts"));
		}
	}
	const f = flame(t, base && {data: /** @type {Data} */ (state.base), table: base}, show);
	root.append(f.root);
	if (base) root.append(el("p", {class: "note"}, "Red: a larger share of the whole than in the base; blue: a smaller one. Widths are those of this run."));
	const update = () => {
		f.update();
		const top = f.top(), idle = t.m.shape === "count" ? f.idle() : 0, parts = [strong(show(f.total()))];
		if (idle) parts.push(" (" + percent(idle / f.total()) + " idle)");
		const part = mainPart(t);
		if (part >= 0 && !(m.keys || [])[part].numeric) {
			const v = t.values(), k = /** @type {Key[]} */ (m.keys)[part], sums = new Float64Array(k.texts.length);
			for (let i = 0; i < t.rows; i++) if (v[i] > 0) sums[k.at[i]] += v[i];
			const all = sums.reduce((a, b) => a + b, 0), best = largest(idle ? sums.map((x, g) => /^swapper\/\d+$/.test(k.texts[g]) ? 0 : x) : sums, 3);
			if (all) parts.push(": ", ...best.flatMap((g, i) => [i ? ", " : "", strong(k.texts[g] || "(none)"), " " + percent(sums[g] / all)]));
		}
		if (top) parts.push(". " + top.how, strong(top.name), " (" + percent(top.share) + ").");
		says.replaceChildren(...parts);
	};
	views.push({update, redraw: f.redraw});
	return {root, views};
}

/** Rows of a picture of a histogram, from the highest to the lowest: a bucket each, or several if there are many. @param {Table} t */
function rowsOf(t) {
	const size = Math.ceil(t.buckets / 36), n = Math.ceil(t.buckets / size);
	return {n, row: (/** @type {number} */ b) => n - 1 - Math.floor(b / size), labels: Array.from({length: n}, (_, i) => t.bucket((n - 1 - i) * size, Math.min((n - i) * size, t.buckets) - 1) + (UNITS[t.unit] ? " " + t.unit : ""))};
}

/** @param {Table} t */
function histogramCard(t) {
	const m = t.m, base = baseTable(m), baseRows = base ? rowsByKey(base) : null;
	const {root, says} = card(m, m.shape === "hist" ? "histogram" : "linear histogram");
	const keyed = t.rows > 1 || !m.scalar;
	let row = -1;
	const views = /** @type {View[]} */ ([]);
	const baseRow = () => row < 0 ? -1 : baseRows && baseRows.has(t.key(row)) ? /** @type {number} */ (baseRows.get(t.key(row))) : -2;
	const tiles = el("div", {class: "quantiles"});
	let h = t.histogramOf(-1), hb = /** @type {Float64Array | null} */ (null), most = 1, all = 0, allBase = 0;
	/** The buckets of the base, by their bounds. */
	const rebase = () => {
		hb = null;
		if (!base || !base.m.bounds || !m.bounds || baseRow() === -2) return;
		const other = base.histogramOf(baseRow(), null);
		hb = new Float64Array(t.buckets);
		base.m.bounds.forEach((b, i) => { const k = /** @type {(number | null)[][]} */ (m.bounds).findIndex((c) => c[0] === b[0] && c[1] === b[1]); if (k >= 0) /** @type {Float64Array} */ (hb)[k] += other[i]; });
	};
	/** @type {Col[]} */
	const cols = [
		{title: t.unit ? "bucket, " + t.unit : "bucket", text: (b) => t.bucket(b)},
		{title: "count", n: true, text: (b) => count(h[b])},
		{title: "share of the largest bucket", text: () => "", bar: (b) => h[b] / most},
		{title: "up to", n: true, text: (b) => { let s = 0; for (let i = 0; i <= b; i++) s += h[i]; return upTo(s / (all || 1)); }},
	];
	if (base) {
		cols[2].base = (b) => hb && allBase ? hb[b] / allBase * all / most : 0;
		cols.push({title: "base", n: true, text: (b) => hb ? percent(hb[b] / (allBase || 1)) : ""});
	}
	const bars = grid("Buckets of " + m.name, cols, () => t.buckets, {});
	bars.root.classList.add("buckets");
	if (t.buckets <= 30) bars.root.classList.add("all");
	const heatOf = () => {
		const rows = rowsOf(t);
		return {labels: rows.labels, log: true, values: t.matrix((r, b) => row < 0 || r === row ? rows.row(b) : -1, rows.n)};
	};
	let map = /** @type {ReturnType<typeof heatMap> | null} */ (null);
	const refresh = () => {
		h = t.histogramOf(row);
		rebase();
		most = Math.max(...h, 1e-9);
		all = h.reduce((a, b) => a + b, 0);
		allBase = hb ? hb.reduce((a, b) => a + b, 0) : 0;
		const q = [["p50", .5], ["p90", .9], ["p99", .99], ["p99.9", .999], ["max ≤", 1]];
		const open_ = (/** @type {string} */ x) => /^[<≥]/.test(x);
		tiles.replaceChildren(...[["values", 0], ...q].map(([name, x]) => el("div", {class: "tile"}, el("span", {}, x === 1 && open_(quantile(t, h, 1)) ? "max" : String(name)), el("b", {}, x === 0 ? short(all) : quantile(t, h, Number(x))),
			hb && allBase ? el("span", {}, "was " + (x === 0 ? short(allBase) : quantile(t, hb, Number(x)))) : null)));
		const k = h.indexOf(most);
		/** A quantile in words; one in a bucket without an upper bound says how much values are at least. @param {number} x */
		const atMost = (x) => { const v = quantile(t, h, x); return open_(v) ? [v[0] === "<" ? "less than " : "at least ", strong(v.slice(2))] : ["at most ", strong(v)]; };
		says.replaceChildren(...all ? [...(row >= 0 ? [strong(t.label(row)), ": "] : []), "Half of ", strong(count(all)), " values are ", ...atMost(.5), ...(open_(quantile(t, h, .99)) ? [] : [", 99% ", ...atMost(.99)]),
			"; most (" + percent(h[k] / all) + ") are in ", strong(t.bucket(k) + (t.unit && t.unit !== "bytes" ? " " + t.unit.replace("us", "µs") : "")), "."] : ["No values" + (state.range ? " in this part of the run." : ".")]);
		bars.arrange();
	};
	const side = el("div", {}, tiles, bars.root);
	const main = el("div", {});
	if (t.columns.length > 1) {
		map = heatMap("Heat map of " + m.name + ": buckets over time", t, heatOf());
		main.append(map.root);
		views.push({update: map.redraw, redraw: map.redraw});
	}
	root.append(main.childNodes.length ? el("div", {class: "pair"}, side, main) : side);
	if (keyed && t.rows > 1) {
		const sort = (m.keys || []).length;
		let v = t.values();
		/** @type {Col[]} */
		const kcols = (m.keys || []).map((k, p) => /** @type {Col} */ ({title: k.name, n: k.numeric, text: (r) => t.part(r, p), value: k.numeric ? (r) => Number(t.part(r, p)) : undefined}));
		kcols.push({title: "count", n: true, text: (r) => count(v[r]), value: (r) => v[r]}, {title: "share", text: () => "", bar: (r) => v[r] / (keyMost || 1)});
		for (const [name, q] of /** @type {[string, number][]} */ ([["p50", .5], ["p99", .99], ["max ≤", 1]])) kcols.push({title: name, n: true, text: (r) => quantile(t, t.histogramOf(r), q)});
		let keyMost = 1;
		const pick = (/** @type {number} */ r) => { row = row === r ? -1 : r; allButton.hidden = row < 0; refresh(); if (map) map.set(heatOf()); keys.redraw(); };
		const allButton = el("button", {hidden: true, onclick() { row = -1; allButton.hidden = true; refresh(); if (map) map.set(heatOf()); keys.redraw(); }}, "Show all keys");
		const keys = grid("Keys of " + m.name, kcols, () => t.rows, {sort, search: (r) => t.key(r), pick, picked: () => row, noun: "keys", keep: (r) => v[r] > 0});
		root.append(el("div", {class: "tools"}, el("span", {class: "status"}, "Choose a key to see its histogram."), allButton), keys.root);
		if (m.host) root.insertBefore(hostHistograms(t, views), root.lastChild);
		views.push({update() { v = t.values(); keyMost = Math.max(...largest(v, 1).map((r) => v[r]), 1); keys.arrange(); }, redraw: keys.redraw});
	}
	views.push({update: refresh, redraw: bars.redraw});
	return {root, views};
}

/** The histograms of hosts, side by side. @param {Table} t @param {View[]} views */
function hostHistograms(t, views) {
	const hosts = /** @type {Key[]} */ (t.m.keys)[0], n = hosts.texts.length;
	const rows = rowsOf(t);
	let h = new Float64Array(0), sums = new Float64Array(0), shares = new Float64Array(0);
	const c = canvas("Histograms of " + t.m.name + ", a column for each host", (ctx, w) => {
		const row = 18, left = 124, width = Math.min((w - left) / n, 220), height = rows.n * row + 22;
		ctx.clearRect(0, 0, w, height);
		ctx.textAlign = "center";
		ctx.fillStyle = css("--text");
		hosts.texts.forEach((name, i) => ctx.fillText(cut(name, Math.floor(width / 7)), left + (i + .5) * width, 9));
		let most = 1e-9;
		for (const s of shares) if (s > most) most = s;
		for (let k = 0; k < rows.n; k++) {
			const y = 20 + k * row;
			ctx.textAlign = "right";
			ctx.fillStyle = css("--dim");
			ctx.fillText(rows.labels[k], left - 7, y + row / 2);
			for (let i = 0; i < n; i++) {
				const share = shares[i * rows.n + k], x = share ? .08 + .92 * Math.sqrt(share / most) : 0;
				ctx.fillStyle = heat(x);
				ctx.fillRect(left + i * width, y, width - 2, row - 1);
				if (share && width > 60) {
					ctx.textAlign = "center";
					ctx.fillStyle = dark() ? x > .65 ? "#111" : "#fff" : x > .5 ? "#fff" : "#222";
					ctx.fillText(percent(share), left + (i + .5) * width, y + row / 2);
				}
			}
		}
		return height;
	});
	const quantiles = lazyTable("Quantiles of the hosts as a table", () => ({
		head: ["host", "values", "p50", "p90", "p99"],
		rows: hosts.texts.map((name, i) => { const x = h.subarray(i * t.buckets, (i + 1) * t.buckets); return [name, count(sums[i]), quantile(t, x, .5), quantile(t, x, .9), quantile(t, x, .99)]; }),
	}));
	views.push({update() {
		const all = t.sums();
		h = new Float64Array(n * t.buckets);
		sums = new Float64Array(n);
		for (let r = 0; r < t.rows; r++) for (let b = 0; b < t.buckets; b++) { h[hosts.at[r] * t.buckets + b] += all[r * t.buckets + b]; sums[hosts.at[r]] += all[r * t.buckets + b]; }
		shares = new Float64Array(n * rows.n);
		for (let i = 0; i < n; i++) for (let b = 0; b < t.buckets; b++) shares[i * rows.n + rows.row(b)] += h[i * t.buckets + b] / (sums[i] || 1);
		quantiles.stale();
		c.redraw();
	}, redraw: c.redraw});
	return el("div", {}, el("h3", {class: "note"}, "Hosts side by side: the share of each bucket"), c.canvas, quantiles.root);
}

/** A table of the elements of a map. @param {Table} t @param {(v: number) => string} show */
function tableCard(t, show) {
	const m = t.m, base = baseTable(m), baseRows = base ? rowsByKey(base) : null;
	const {root, says} = card(m, m.shape === "plain" ? "values" : m.shape === "tseries" ? "time series" : m.shape + (m.tree ? " by stack" : ""));
	const views = /** @type {View[]} */ ([]);
	const rate = !m.level && !t.counted, timed = rate && (state.data.duration > 0 || t.columns.length > 1), mean = t.counted && m.shape === "avg";
	let v = t.values(), n = t.counted ? t.sums("n") : v, sum = 0, most = 1;
	/** The part of the key that is the name of a process, if another one is its number: there may be many of the name; -1: none. */
	const byComm = rate && (m.keys || []).some((k) => k.name === "pid" || k.name === "tid") ? (m.keys || []).findIndex((k) => k.name === "comm") : -1;
	/** @param {number} r */
	const shown = (r) => mean ? v[r] / (n[r] || 1) : v[r];
	if (t.columns.length > 1) {
		const usual = m.times.map((x, i) => x - t.starts[i]).sort((a, b) => a - b)[m.times.length >> 1];
		const {labels, group} = groupsOf(t, byComm, m.level ? 6 : 7);
		const names = m.scalar ? [m.name] : labels;
		const lines = lineChart((m.level || mean ? "Values" : "Rates") + " of " + m.name + " over time", t, () => {
			const a = t.matrix((r) => group(r), labels.length), c = t.columns.length, k = t.counted ? t.matrix((r) => group(r), labels.length, "n") : null;
			return names.map((name, g) => ({name: cut(name, 40), values: Float64Array.from({length: c}, (_, i) => {
				const x = a[g * c + i];
				if (mean && k) return k[g * c + i] ? x / k[g * c + i] : NaN;
				const ms = m.times[i] - t.starts[i];
				return m.level ? x : ms < usual / 4 ? NaN : x / Math.max(ms / 1000, 1e-6); // the end of a run is soon after an interval: no rate
			})}));
		}, (x) => m.level || mean ? show(x) : (t.unit ? show(x) : short(x)) + "/s");
		root.append(lines.root);
		views.push({update: lines.redraw, redraw: lines.redraw});
	}
	const keys = m.keys || [];
	/** @type {Col[]} */
	const cols = keys.map((k, p) => ({title: k.name, n: k.numeric, text: (/** @type {number} */ r) => t.part(r, p), value: k.numeric ? (/** @type {number} */ r) => Number(t.part(r, p)) : undefined}));
	const sort = cols.length;
	if (m.texts) cols.push({title: "value", line: true, text: (r) => /** @type {string[]} */ (m.texts)[r]});
	else if (t.counted && !mean) {
		cols.push({title: "total", n: true, text: (r) => show(v[r]), value: (r) => v[r]}, {title: "of the largest", text: () => "", bar: (r) => v[r] / most}, {title: "average", n: true, text: (r) => show(v[r] / (n[r] || 1)), value: (r) => v[r] / (n[r] || 1)}, {title: "count", n: true, text: (r) => count(n[r]), value: (r) => n[r]});
	} else if (t.counted) {
		cols.push({title: "average", n: true, text: (r) => show(v[r] / (n[r] || 1)), value: (r) => v[r] / (n[r] || 1)}, {title: "of the largest", text: () => "", bar: (r) => shown(r) / most}, {title: "count", n: true, text: (r) => count(n[r]), value: (r) => n[r]}, {title: "total", n: true, text: (r) => show(v[r]), value: (r) => v[r]});
	} else {
		cols.push({title: m.shape === "plain" || m.shape === "tseries" ? "value" : m.shape, n: true, text: (r) => exactOf(r) || (isNaN(v[r]) ? "" : t.unit ? show(v[r]) : count(v[r])), value: (r) => isNaN(v[r]) ? -Infinity : v[r]});
		cols.push({title: "of the largest", text: () => "", bar: (r) => v[r] / most});
		if (rate) cols.push({title: "share", n: true, text: (r) => percent(v[r] / (sum || 1)), value: (r) => v[r]});
		if (timed) cols.push({title: "per second", n: true, text: (r) => t.unit ? show(v[r] / t.seconds()) : short(v[r] / t.seconds()), value: (r) => v[r]});
	}
	/** The digits of a value that a number cannot represent. @param {number} r */
	const exactOf = (r) => {
		if (Math.abs(v[r]) < 2 ** 53 || t.unit || t.columns.length !== 1) return "";
		const c = t.columns[0], i = c.row.indexOf(r);
		return i >= 0 ? String(c.exact[i]) : "";
	};
	if (base && baseRows && !m.texts) {
		const b = base.values(null), bn = base.counted ? base.sums("n", null) : b;
		const was = (/** @type {number} */ r) => { const i = baseRows.get(t.key(r)); return i === undefined ? NaN : t.counted ? b[i] / (bn[i] || 1) : rate ? b[i] / base.seconds(null) * t.seconds() : b[i]; };
		const now = (/** @type {number} */ r) => t.counted ? v[r] / (n[r] || 1) : v[r];
		cols.push({title: rate ? "base, scaled" : "base", n: true, text: (r) => isNaN(was(r)) ? "new" : show(was(r)), value: (r) => was(r) || 0},
			{title: "change", n: true, value: (r) => now(r) - (was(r) || 0), text: (r) => { const w = was(r); return isNaN(w) || !w ? "" : (now(r) >= w ? "+" : "−") + percent(Math.abs(now(r) - w) / Math.abs(w)); }, style: (r) => now(r) > (was(r) || 0) * 1.1 ? "more" : now(r) < (was(r) || 0) * .9 ? "less" : ""});
	}
	const g = grid("Elements of " + m.name, cols, () => t.rows, {sort, search: (r) => t.key(r) + (m.texts ? " " + m.texts[r] : ""), noun: t.rows === 1 ? "element" : "elements", keep: (r) => m.texts ? true : m.level ? !isNaN(v[r]) : v[r] !== 0 || n[r] !== 0});
	if (m.host && keys.length > 1 && !m.texts && !t.counted) root.append(pivot(t, show, views));
	if (!m.scalar) root.append(g.root);
	const update = () => {
		v = t.values();
		n = t.counted ? t.sums("n") : v;
		sum = 0;
		most = 1e-9;
		let used = 0;
		for (let r = 0; r < v.length; r++) {
			if (!v[r] || isNaN(v[r])) continue;
			used++;
			if (v[r] > 0) sum += v[r];
			if (shown(r) > most) most = shown(r);
		}
		if (!m.scalar) g.arrange();
		const best = largest(mean ? Float64Array.from(v, (x, r) => x / (n[r] || 1)) : v, 3);
		const names = byComm >= 0 && !m.host ? /** @type {Key[]} */ (m.keys)[byComm] : null, byName = new Float64Array(names ? names.texts.length : 0);
		if (names) for (let r = 0; r < v.length; r++) if (v[r] > 0) byName[names.at[r]] += v[r];
		if (m.texts) says.replaceChildren(strong(count(t.rows)), " elements");
		else if (m.scalar) says.replaceChildren(strong(mean || t.counted ? show(v[0] / (n[0] || 1)) : show(v[0] || 0)), ...(timed ? [", ", strong(t.unit ? show((v[0] || 0) / t.seconds()) : short((v[0] || 0) / t.seconds())), " a second"] : t.counted ? [" on average, of ", strong(count(n[0] || 0)), " values"] : []));
		else if (!best.length) says.replaceChildren("No values" + (state.range ? " in this part of the run." : "."));
		else if (names) says.replaceChildren(strong(show(sum)), " in ", strong(count(used)), used === 1 ? " element: " : " elements: ", ...largest(byName, 3).flatMap((g, i) => [i ? ", " : "", strong(cut(names.texts[g], 60)), " " + percent(byName[g] / (sum || 1))]));
		else says.replaceChildren(...(rate ? [strong(show(sum)), " in ", strong(count(used)), used === 1 ? " element: " : " elements: "] : [mean ? "Largest averages: " : t.counted ? "Largest totals: " : "Largest: "]),
			...best.flatMap((r, i) => [i ? ", " : "", strong(cut(t.label(r), 60)), " " + (rate ? percent(v[r] / (sum || 1)) : show(shown(r)))]));
	};
	views.push({update, redraw: g.redraw});
	return {root, views};
}

/** A table with a column for each host. @param {Table} t @param {(v: number) => string} show @param {View[]} views */
function pivot(t, show, views) {
	const hosts = /** @type {Key[]} */ (t.m.keys)[0], n = hosts.texts.length;
	/** @type {Map<string, number>} */
	const ids = new Map();
	/** @type {string[]} */
	const names = [];
	const group = new Int32Array(t.rows);
	for (let r = 0; r < t.rows; r++) {
		const name = (t.m.keys || []).slice(1).map((k) => k.texts[k.at[r]]).join(", ");
		let id = ids.get(name);
		if (id === undefined) { ids.set(name, id = names.length); names.push(name); }
		group[r] = id;
	}
	let v = new Float64Array(0), totals = new Float64Array(0);
	/** @type {Col[]} */
	const cols = [{title: (t.m.keys || []).slice(1).map((k) => k.name).join(", "), text: (g) => names[g]}];
	hosts.texts.forEach((name, h) => cols.push({title: name, n: true, text: (g) => v[g * n + h] ? show(v[g * n + h]) : "", value: (g) => v[g * n + h]}));
	if (!t.m.level) cols.push({title: "all", n: true, text: (g) => show(totals[g]), value: (g) => totals[g]});
	const g = grid("Hosts side by side: " + t.m.name, cols, () => names.length, {sort: t.m.level ? 1 : cols.length - 1, search: (g) => names[g], noun: "keys"});
	views.push({update() {
		const all = t.values();
		v = new Float64Array(names.length * n);
		totals = new Float64Array(names.length);
		for (let r = 0; r < t.rows; r++) if (all[r]) { v[group[r] * n + hosts.at[r]] += all[r]; totals[group[r]] += all[r]; }
		g.arrange();
	}, redraw: g.redraw});
	return el("div", {}, el("h3", {class: "note"}, "Hosts side by side"), g.root);
}

/** The line with the names of columns that a script prints first; "": none. @param {RawEvents} e */
function headerOf(e) {
	const text = e.t.length > 1 && e.counts[e.c[0]] === 1 ? e.texts[e.x[0]] : "", words = text.trim().split(/\s+/);
	return words.length > 1 && words.every((w) => /^%?[A-Z][A-Z0-9_%/.:#-]*(\([A-Za-zµ/]+\))?$/.test(w)) ? text : "";
}

/** @param {RawEvents} e */
function eventsCard(e) {
	const n = e.t.length, at = new Float64Array(n), header = headerOf(e);
	const shown = (/** @type {number} */ i) => (i > 0 || !header) && (!state.range || at[i] >= state.range[0] && at[i] <= state.range[1]);
	for (let i = 0, t = 0; i < n; i++) at[i] = (t += e.t[i]) / 1000;
	const took = e.d ? floats(e.d) : null;
	const says = el("p", {class: "answer"});
	const root = el("section", {class: "card", id: "lines", "aria-label": "Lines"}, el("div", {class: "title"}, el("h2", {}, "Lines"), el("span", {class: "kind"}, "what the script printed, at the time when btrun handled it")), says);
	const views = /** @type {View[]} */ ([]);
	const span = Math.max(state.data.duration, n ? at[n - 1] : 0, 1), bins = Math.min(Math.max(Math.floor(n / 3), 20), 200);
	if (n > 10) {
		const t = {starts: Array.from({length: bins}, (_, i) => i * span / bins), m: {times: Array.from({length: bins}, (_, i) => (i + 1) * span / bins)}};
		const bin = (/** @type {number} */ i) => Math.min(Math.floor(at[i] / span * bins), bins - 1);
		if (took) {
			const levels = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, Infinity], used = levels.filter((_, l) => took.some((d) => d >= 0 && d < levels[l] && (l === 0 || d >= levels[l - 1])));
			const lo = levels.indexOf(used[0]), hi = levels.indexOf(used[used.length - 1]), rows = Math.max(hi - lo + 1, 1);
			const values = new Float64Array(rows * bins);
			for (let i = 0; i < n; i++) if (took[i] >= 0) { const l = levels.findIndex((x) => took[i] < x); values[(hi - l) * bins + bin(i)]++; }
			const labels = Array.from({length: rows}, (_, k) => levels[hi - k] === Infinity ? "≥ 10 s" : "< " + duration(levels[hi - k]));
			const h = heatMap("Durations of the lines over time", t, {labels, values, log: true});
			root.append(h.root);
			views.push({update: h.redraw, redraw: h.redraw});
		} else {
			const used = new Int32Array(e.calls.length);
			for (const c of e.c) used[c]++;
			const most = Math.max(...used), rows = Array.from(e.calls.keys()).filter((c) => used[c] > 1 || most === 1), calls = rows.map((c) => e.calls[c].kind + " line " + e.calls[c].line);
			const values = new Float64Array(calls.length * bins);
			for (let i = 0; i < n; i++) { const k = rows.indexOf(e.c[i]); if (k >= 0) values[k * bins + bin(i)]++; }
			const h = heatMap("Number of lines over time, by the call of the script that printed them", t, {labels: calls, values});
			root.append(h.root);
			views.push({update: h.redraw, redraw: h.redraw});
		}
	}
	/** @type {Col[]} */
	const cols = [{title: "time", text: (i) => clock(at[i]), value: (i) => at[i]}];
	if (e.hosts && e.h) { const hosts = e.hosts, h = e.h; cols.push({title: "host", text: (i) => hosts[h[i]]}); }
	if (took) cols.push({title: "took", n: true, text: (i) => took[i] >= 0 ? duration(took[i]) : "", value: (i) => took[i]});
	cols.push({title: header || "line", head: !!header, text: (i) => e.texts[e.x[i]], line: true});
	const g = grid("Lines that the script printed", cols, () => n, {sort: 0, down: false, search: (i) => (e.hosts && e.h ? e.hosts[e.h[i]] + " " : "") + e.texts[e.x[i]], noun: "lines", total: header ? n - 1 : n, keep: shown});
	root.append(g.root);
	if (e.omitted) root.append(el("p", {class: "note"}, "The page has the first " + count(n) + " lines; " + count(e.omitted) + " are omitted: --from and --to select others."));
	views.push({update() {
		let k = 0, worst = -1;
		const by = new Float64Array((e.names || []).length);
		const known = /** @type {number[]} */ ([]);
		for (let i = 0; i < n; i++) {
			if (!shown(i)) continue;
			k++;
			if (e.w && e.w[i] >= 0) by[e.w[i]]++;
			if (took && took[i] >= 0) { known.push(took[i]); if (worst < 0 || took[i] > took[worst]) worst = i; }
		}
		const seconds = (state.range ? state.range[1] - state.range[0] : span) / 1000;
		const parts = [strong(count(k)), k === 1 ? " line" : " lines", ...(state.data.duration > 0 && k > 3 ? [", ", strong(short(k / Math.max(seconds, 1e-6))), " a second"] : [])];
		const best = largest(by, 3);
		if (k > 3 && best.length) parts.push(": ", ...best.flatMap((i, j) => [j ? ", " : "", strong((e.names || [])[i]), " " + percent(by[i] / k)]));
		if (took && known.length) {
			known.sort((a, b) => a - b);
			const q = (/** @type {number} */ x) => duration(known[Math.max(Math.ceil(x * known.length) - 1, 0)]);
			parts.push(". Durations: half at most ", strong(q(.5)), ", 99% at most ", strong(q(.99)), ", longest ", strong(duration(took[worst])), " at " + clock(at[worst]) + ".");
		}
		says.replaceChildren(...parts);
		g.arrange();
	}, redraw: g.redraw});
	return {root, views};
}

/** Scalars that are only a number. @param {Table[]} all */
function tilesCard(all) {
	const box = el("div", {class: "tiles"});
	const update = () => box.replaceChildren(...all.map((t) => {
		const v = t.values()[0] || 0, n = t.counted ? t.sums("n")[0] || 0 : 0, unit = t.unit;
		return el("div", {class: "tile", id: "map-" + t.m.name.replace(/[^A-Za-z0-9_]/g, "")}, el("span", {class: "mono"}, t.m.name), el("b", {}, t.m.texts ? cut(t.m.texts[0] || "", 60) : amount(t.counted ? v / (n || 1) : v, unit)),
			el("span", {}, t.counted ? "average of " + count(n) : t.m.level ? t.m.shape === "plain" ? "" : t.m.shape : state.data.duration > 0 ? (unit ? amount(v / t.seconds(), unit) : short(v / t.seconds())) + " a second" : ""));
	}));
	return {root: el("section", {class: "card", "aria-label": "Numbers"}, el("div", {class: "title"}, el("h2", {}, "Numbers")), box), views: [{update, redraw() {}}]};
}
