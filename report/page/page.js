// SPDX-License-Identifier: Apache-2.0
// The script of a report's page. It shows data that anybody may have chosen: only as text (textContent, fillText), never as HTML.
// @ts-check
"use strict";

/**
 * @typedef {number | string} Num an integer; a string if a number cannot represent it
 * @typedef {{name: string, numeric?: boolean, texts: string[], at: number[]}} Key
 * @typedef {{r: number[], a: Num[], n?: Num[], b?: number[]}} RawColumn
 * @typedef {{depth: number[], frame: number[], leaf: number[]}} RawTree
 * @typedef {{name: string, shape: string, unit?: string, help?: string, line?: number, scalar?: boolean, host?: boolean, scratch?: boolean,
 *   level?: boolean, interval?: number, joined?: number, keys?: Key[], rows: number, texts?: string[], bounds?: (number | null)[][], decimal?: boolean,
 *   times: number[], columns: RawColumn[], tree?: RawTree, omitted?: {rows: number, value: Num}, cut?: {depth: Num, unwind: Num, lost: Num, of: Num}}} RawMap
 * @typedef {{calls: {kind: string, line: number}[], texts: string[], hosts?: string[], t: number[], c: number[], x: number[], h?: number[], d?: Num[], omitted?: number}} RawEvents
 * @typedef {{line: number, end: number, probes: string[], maps?: string[], calls?: number[]}} Clause
 * @typedef {{file: string, script: {file: string, source: string, clauses?: Clause[]}, host?: string, kernel?: string, arch?: string, object?: string,
 *   compiler?: string, params?: {name: string, value: string}[], hosts?: string[], merged?: boolean, byHost?: boolean, attached?: number, started: number,
 *   offset: number, zone?: string, duration: number, ended: boolean, losses?: {cause: string, n: Num}[], coverage?: string[],
 *   messages?: {at: number, text: string, error?: boolean, line?: number}[], maps: RawMap[], events?: RawEvents, frames?: {name: string, kind: string}[]}} Data
 * @typedef {[number, number] | null} Part a part of the run, in milliseconds
 * @typedef {{update(): void, redraw(): void}} View
 */

(function () {

// ---- Small things ----

/** @param {string} tag @param {Object<string, any>} [props] @param {...(Node | string | null)} children @returns {any} */
function el(tag, props, ...children) {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(props || {})) {
		if (name === "class") e.className = value;
		else if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
		else if (value === true) e.setAttribute(name, "");
		else if (value !== false && value != null) e.setAttribute(name, String(value));
	}
	for (const c of children) if (c != null) e.append(c);
	return e;
}

/** @param {Num | undefined} n */
const num = (n) => typeof n === "string" ? Number(n) : n || 0;

const grouped = new Intl.NumberFormat("en-US");
/** @param {number} n an integer, or a rate */
function count(n) {
	if (Math.abs(n) >= 100 || Number.isInteger(n)) return grouped.format(Math.round(n));
	return String(Number(n.toPrecision(3)));
}

/** @param {number} n */
function short(n) {
	const a = Math.abs(n);
	for (const [size, unit] of /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])) {
		if (a >= size) return Number((n / (unit === "k" ? 1e3 : size)).toPrecision(3)) + unit;
	}
	return count(n);
}

/** @param {number} share */
const percent = (share) => !isFinite(share) ? "" : share >= 0.0995 ? (100 * share).toFixed(0) + "%" : (100 * share).toFixed(share && share < 0.001 ? 2 : 1) + "%";

/** A duration. @param {number} ns */
function duration(ns) {
	const a = Math.abs(ns);
	if (a < 1e3) return count(ns) + " ns";
	if (a < 1e6) return Number((ns / 1e3).toPrecision(3)) + " µs";
	if (a < 1e9) return Number((ns / 1e6).toPrecision(3)) + " ms";
	if (a < 6e10) return Number((ns / 1e9).toPrecision(3)) + " s";
	const s = Math.round(ns / 1e9);
	return (s >= 3600 ? Math.floor(s / 3600) + " h " : "") + Math.floor(s % 3600 / 60) + " min " + s % 60 + " s";
}

/** @type {Object<string, number>} nanoseconds of a unit of time */
const UNITS = {ns: 1, nsecs: 1, nanoseconds: 1, us: 1e3, usecs: 1e3, microseconds: 1e3, ms: 1e6, msecs: 1e6, milliseconds: 1e6, s: 1e9, secs: 1e9, seconds: 1e9};

/** The unit of a map: that of its comment, or the last word of its name. @param {RawMap} m */
function unitOf(m) {
	const word = m.unit || (m.name.match(/[@_]([a-z]+)$/) || ["", ""])[1];
	return UNITS[word] || word === "bytes" ? word : "";
}

/** A value with its unit. @param {number} v @param {string} unit */
function amount(v, unit) {
	if (UNITS[unit]) return v === 0 && UNITS[unit] > 1 ? "< " + duration(UNITS[unit]) : duration(v * UNITS[unit]);
	if (unit === "bytes") {
		let i = 0;
		while (Math.abs(v) >= 1024 && i < 5) { v /= 1024; i++; }
		return (i ? Number(v.toPrecision(3)) : count(v)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][i];
	}
	return count(v);
}

const dark = () => document.documentElement.dataset.theme === "dark";

/** @type {Map<string, string>} */
const values = new Map();

/** A value of the style sheet in the theme that is shown. It is asked for once: each time would lay out the page. @param {string} name */
function css(name) {
	const key = document.documentElement.dataset.theme + name;
	let v = values.get(key);
	if (v === undefined) values.set(key, v = getComputedStyle(document.documentElement).getPropertyValue(name).trim());
	return v;
}

/** A pattern from what the user typed, which may be a regular expression. @param {string} text @returns {((s: string) => boolean) | null} */
function matcher(text) {
	if (!text) return null;
	try {
		const r = new RegExp(text, "i");
		return (s) => r.test(s);
	} catch {
		const lower = text.toLowerCase();
		return (s) => s.toLowerCase().includes(lower);
	}
}

/** @param {string} label @param {(value: string) => void} then */
function searchBox(label, then) {
	const box = el("input", {type: "search", placeholder: label, "aria-label": label, spellcheck: "false"});
	box.addEventListener("input", () => then(box.value));
	return box;
}

// ---- Data ----

/** @param {string} text in base64 @returns {Uint8Array<ArrayBuffer>} */
function decode(text) {
	const fast = /** @type {any} */ (Uint8Array).fromBase64;
	if (fast) return fast.call(Uint8Array, text);
	const raw = atob(text), bytes = new Uint8Array(raw.length);
	for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
	return bytes;
}

/** @param {string} id @returns {Promise<Data | null>} */
async function load(id) {
	const e = document.getElementById(id);
	if (!e) return null;
	const text = e.textContent || "";
	e.textContent = "";
	if (e.getAttribute("type") === "application/json") return JSON.parse(text);
	const stream = new Blob([decode(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
	return JSON.parse(await new Response(stream).text());
}

/** The state that all views share. */
const state = {
	/** @type {Part} */ range: null,
	/** @type {View[]} */ views: [],
	/** @type {Data} */ data: /** @type {any} */ (null),
	/** @type {Data | null} */ base: null,
};

/** @param {Part} r */
function select(r) {
	state.range = r;
	for (const v of state.views) v.update();
}

/** A time of the run, on the clock of its host. @param {number} ms @param {number} [step] milliseconds that matter */
function clock(ms, step) {
	const d = new Date(state.data.started + ms + state.data.offset * 1000);
	const text = d.toISOString().slice(11, 23);
	return step !== undefined && step >= 1000 ? text.slice(0, 8) : text;
}

/** A map with its values in typed arrays. */
class Table {
	/** @param {RawMap} m */
	constructor(m) {
		this.m = m;
		this.rows = m.rows;
		this.unit = unitOf(m);
		this.counted = m.shape === "avg" || m.shape === "stats";
		this.histogram = m.shape === "hist" || m.shape === "lhist";
		this.buckets = m.bounds ? m.bounds.length : 1;
		/** @type {{row: Int32Array, a: Float64Array, n: Float64Array | null, b: number[] | undefined, exact: Num[]}[]} */
		this.columns = m.columns.map((c) => {
			const row = new Int32Array(c.r.length);
			for (let i = 0, at = 0; i < row.length; i++) row[i] = at += c.r[i];
			return {row, a: Float64Array.from(c.a, num), n: c.n ? Float64Array.from(c.n, num) : null, b: c.b, exact: c.a};
		});
		/** @type {number[]} the beginning of each column */
		this.starts = m.times.map((t, i) => m.interval ? t - m.interval : i ? m.times[i - 1] : Math.min(0, t));
		/** @type {Map<string, Float64Array>} */
		this.cache = new Map();
	}

	/** The first and the last column of a range. @param {Part} [r] @returns {[number, number]} */
	span(r = state.range) {
		const n = this.columns.length;
		if (!r) return [0, n - 1];
		let first = n, last = -1, near = 0, best = Infinity;
		const mid = (r[0] + r[1]) / 2;
		for (let i = 0; i < n; i++) {
			const at = (this.starts[i] + this.m.times[i]) / 2;
			if (at >= r[0] && at <= r[1]) { first = Math.min(first, i); last = i; }
			if (Math.abs(at - mid) < best) { best = Math.abs(at - mid); near = i; }
		}
		return last < 0 ? [near, near] : [first, last];
	}

	/** Seconds of the columns of a range. @param {Part} [r] */
	seconds(r = state.range) {
		const [a, b] = this.span(r);
		return b < 0 ? 0 : Math.max((this.m.times[b] - this.starts[a]) / 1000, 1e-6);
	}

	/** The values of rows in a range: of bucket b of row i at i*buckets+b. @param {"a" | "n"} [what] @param {Part} [r] @returns {Float64Array} */
	sums(what = "a", r = state.range) {
		const [first, last] = this.span(r), key = what + first + "-" + last;
		const known = this.cache.get(key);
		if (known) return known;
		const out = new Float64Array(this.rows * this.buckets);
		if (this.m.level) {
			if (this.m.interval) this.latest(out, first, last);
			else if (last >= 0) this.latest(out, last, last);
		} else {
			for (let c = first; c <= last; c++) this.addColumn(out, c, what);
		}
		if (this.cache.size > 8) this.cache.clear();
		this.cache.set(key, out);
		return out;
	}

	/** @param {Float64Array} out @param {number} first @param {number} last */
	latest(out, first, last) {
		out.fill(NaN);
		for (let c = first; c <= last; c++) {
			const {row, a} = this.columns[c];
			for (let i = 0; i < row.length; i++) out[row[i]] = a[i];
		}
	}

	/** @param {Float64Array} out @param {number} c @param {"a" | "n"} what */
	addColumn(out, c, what) {
		const {row, a, n, b} = this.columns[c], v = what === "n" && n ? n : a, size = this.buckets;
		if (b) for (let i = 0; i < row.length; i++) out[row[i] * size + b[i]] += v[i];
		else for (let i = 0; i < row.length; i++) out[row[i]] += v[i];
	}

	/** The value of each row that it is ordered by. @param {Part} [r] @returns {Float64Array} */
	values(r = state.range) {
		if (this.histogram) {
			const key = "count" + this.span(r), known = this.cache.get(key);
			if (known) return known;
			const all = this.sums("a", r), out = new Float64Array(this.rows);
			for (let i = 0; i < all.length; i++) out[Math.floor(i / this.buckets)] += all[i];
			this.cache.set(key, out);
			return out;
		}
		return this.sums("a", r);
	}

	/** The buckets of one row, or of all. @param {number} row -1: all @param {Part} [r] */
	histogramOf(row, r = state.range) {
		const all = this.sums("a", r), out = new Float64Array(this.buckets);
		if (row >= 0) out.set(all.subarray(row * this.buckets, (row + 1) * this.buckets));
		else for (let i = 0; i < all.length; i++) out[i % this.buckets] += all[i];
		return out;
	}

	/** A value in each column and group: of rows, or of buckets. @param {(row: number, bucket: number) => number} group -1: none @param {number} groups @param {"a" | "n"} [what] */
	matrix(group, groups, what = "a") {
		const n = this.columns.length, out = new Float64Array(n * groups);
		if (this.m.level) out.fill(NaN);
		for (let c = 0; c < n; c++) {
			const col = this.columns[c], v = what === "n" && col.n ? col.n : col.a;
			for (let i = 0; i < col.row.length; i++) {
				const g = group(col.row[i], col.b ? col.b[i] : 0);
				if (g >= 0) out[g * n + c] = this.m.level ? v[i] : out[g * n + c] + v[i];
			}
		}
		return out;
	}

	/** @param {number} row @param {number} part */
	part(row, part) {
		const k = this.m.keys && this.m.keys[part];
		return k ? k.texts[k.at[row]] : "";
	}

	/** @param {number} row */
	key(row) {
		return (this.m.keys || []).map((k) => k.texts[k.at[row]]).join(", ");
	}

	/** The bounds of a bucket, or of several. @param {number} b @param {number} [last] */
	bucket(b, last = b) {
		const bounds = /** @type {(number | null)[][]} */ (this.m.bounds), low = bounds[b][0], high = bounds[last][1];
		const text = (/** @type {number} */ v) => {
			if (!this.m.decimal) for (const [s, u] of /** @type {[number, string][]} */ ([[2 ** 60, "E"], [2 ** 50, "P"], [2 ** 40, "T"], [2 ** 30, "G"], [2 ** 20, "M"], [1024, "K"]])) {
				if (Math.abs(v) >= s && v * 64 % s === 0) return v / s + u;
			}
			return String(v);
		};
		if (low === null && high === null) return "(..., ...)";
		if (low === null) return "(..., " + text(/** @type {number} */ (high) + 1) + ")";
		if (high === null) return "[" + text(low) + ", ...)";
		if (low === high) return "[" + text(low) + "]";
		return "[" + text(low) + ", " + text(high + 1) + ")";
	}
}

/** The value that a share q of all does not exceed, as a run prints it: from the bucket that it is in. @param {Table} t @param {Float64Array} h @param {number} q */
function quantile(t, h, q) {
	let total = 0;
	for (const c of h) total += c;
	let rank = q * total;
	const whole = Math.round(rank);
	if (Math.abs(rank - whole) < 1e-12 * whole) rank = whole;
	let seen = 0;
	for (let b = 0; b < h.length; b++) {
		if (!h[b]) continue;
		const share = Math.min((rank - seen) / h[b], 1);
		seen += h[b];
		if (seen < rank) continue;
		const [low, high] = /** @type {(number | null)[][]} */ (t.m.bounds)[b];
		if (low === null) return "< " + amount(/** @type {number} */ (high) + 1, t.unit);
		if (high === null) return "≥ " + amount(low, t.unit);
		return amount(low === high ? low : Math.round(low + share * (high + 1 - low)), t.unit);
	}
	return "";
}

// ---- Drawing over time ----

/** @type {[number, number, number][][]} from none to much: light, dark */
const RAMPS = [
	[[255, 255, 255], [255, 237, 190], [254, 190, 100], [244, 120, 60], [205, 40, 40], [110, 0, 40]],
	[[25, 31, 39], [66, 34, 82], [140, 41, 99], [214, 78, 63], [250, 160, 40], [252, 245, 160]],
];

/** @param {number} x 0 to 1 */
function heat(x) {
	const ramp = RAMPS[dark() ? 1 : 0], at = Math.min(Math.max(x, 0), 1) * (ramp.length - 1), i = Math.min(Math.floor(at), ramp.length - 2), f = at - i;
	return "rgb(" + ramp[i].map((v, k) => Math.round(v + f * (ramp[i + 1][k] - v))).join(",") + ")";
}

const COLORS = ["#2f6fd0", "#d9622b", "#1d9a6c", "#a24bc4", "#c2a012", "#c43d64", "#3aa5b9", "#7d7f86"];

/** A canvas that is drawn again when its size changes. @param {string} label @param {(ctx: CanvasRenderingContext2D, width: number) => number} draw returns the height that it needs */
function canvas(label, draw) {
	const c = el("canvas", {role: "img", tabindex: "0", "aria-label": label});
	let width = 0, height = 0;
	const redraw = () => {
		if (!width) width = c.clientWidth;
		if (!width) return;
		const scale = window.devicePixelRatio || 1;
		/** @param {number} h */
		const size = (h) => {
			height = h;
			c.width = Math.round(width * scale);
			c.height = Math.round(h * scale);
			c.style.height = h + "px";
			const ctx = c.getContext("2d");
			ctx.setTransform(scale, 0, 0, scale, 0, 0);
			ctx.font = "11.5px " + css("--mono");
			ctx.textBaseline = "middle";
			return ctx;
		};
		const needed = draw(size(height || 10), width);
		if (needed !== height) draw(size(needed), width);
	};
	new ResizeObserver(() => { if (c.clientWidth && c.clientWidth !== width) { width = c.clientWidth; redraw(); } }).observe(c);
	return {canvas: c, redraw};
}

/** A picture over time, from which a range is selected with the pointer or the arrow keys.
 * @param {string} label @param {Table | {starts: number[], m: {times: number[]}}} t
 * @param {{left: number, height(): number, draw(ctx: CanvasRenderingContext2D, x: (c: number) => number, width: number, height: number): void, tell(c: number, y: number): string}} o */
function timePicture(label, t, o) {
	const times = t.m.times, n = times.length, axis = 20;
	const status = el("p", {class: "status", role: "status"});
	const hint = "Drag to select a part of the run.";
	status.textContent = hint;
	let cursor = -1, anchor = -1, width = 1;
	const start = t.starts[0], end = times[n - 1];
	const toX = (/** @type {number} */ ms) => o.left + (ms - start) / Math.max(end - start, 1e-9) * (width - o.left);
	const x = (/** @type {number} */ c) => toX(c < n ? t.starts[c] : end);
	const at = (/** @type {number} */ px) => {
		const ms = start + (px - o.left) / (width - o.left) * (end - start);
		let lo = 0, hi = n - 1;
		while (lo < hi) { const mid = (lo + hi) >> 1; if (times[mid] < ms) lo = mid + 1; else hi = mid; }
		return lo;
	};
	const c = canvas(label + ". " + hint + " With the keyboard: arrow keys move, with Shift they select, Escape shows all.", (ctx, w) => {
		width = w;
		const height = o.height();
		ctx.clearRect(0, 0, w, height + axis);
		o.draw(ctx, x, w, height);
		ctx.fillStyle = css("--dim");
		ctx.textAlign = "center";
		const ticks = Math.max(2, Math.floor((w - o.left) / 130)), step = (end - start) / ticks;
		for (let i = 0; i <= ticks; i++) {
			const ms = start + i * step, px = toX(ms);
			ctx.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
			ctx.fillText(clock(ms, step), px, height + 11);
			ctx.fillRect(Math.min(px, w - 1), height, 1, 3);
		}
		const r = state.range;
		if (r || anchor >= 0 && dragging) {
			const [a, b] = dragging && anchor >= 0 ? [t.starts[Math.min(anchor, cursor)], times[Math.max(anchor, cursor)]] : /** @type {[number, number]} */ (r);
			const x0 = Math.max(toX(a), o.left), x1 = Math.min(toX(b), w);
			ctx.fillStyle = dark() ? "rgba(0,0,0,.55)" : "rgba(255,255,255,.62)";
			ctx.fillRect(o.left, 0, Math.max(x0 - o.left, 0), height);
			ctx.fillRect(x1, 0, Math.max(w - x1, 0), height);
			ctx.strokeStyle = css("--accent");
			ctx.lineWidth = 2;
			ctx.strokeRect(x0, 1, Math.max(x1 - x0, 1), height - 2);
		} else if (cursor >= 0) {
			ctx.strokeStyle = css("--text");
			ctx.lineWidth = 1;
			ctx.strokeRect(x(cursor) + .5, .5, Math.max(x(cursor + 1) - x(cursor) - 1, 1), height - 1);
		}
		return height + axis;
	});
	let dragging = false;
	const tell = (/** @type {number} */ y) => { status.textContent = cursor < 0 ? hint : clock(t.starts[cursor]) + " – " + clock(times[cursor]) + "  " + o.tell(cursor, y); };
	const choose = () => select([t.starts[Math.min(anchor, cursor)], times[Math.max(anchor, cursor)]]);
	/** @param {PointerEvent} e */
	const point = (e) => { const box = c.canvas.getBoundingClientRect(); cursor = at(e.clientX - box.left); tell(e.clientY - box.top); };
	c.canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ e) => {
		if (e.button !== 0) return;
		point(e);
		anchor = cursor;
		dragging = true;
		c.canvas.setPointerCapture(e.pointerId);
		c.redraw();
	});
	c.canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ e) => { const was = cursor; point(e); if (was !== cursor) c.redraw(); });
	c.canvas.addEventListener("pointerup", (/** @type {PointerEvent} */ e) => { if (dragging) { point(e); dragging = false; choose(); } });
	c.canvas.addEventListener("pointercancel", () => { dragging = false; c.redraw(); });
	c.canvas.addEventListener("pointerleave", () => { if (!dragging) { cursor = -1; tell(0); c.redraw(); } });
	c.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => {
		const step = e.key === "ArrowLeft" ? -1 : e.key === "ArrowRight" ? 1 : 0;
		if (step) {
			if (e.shiftKey && anchor < 0) anchor = Math.max(cursor, 0);
			cursor = Math.min(Math.max(cursor + step, 0), n - 1);
			if (!e.shiftKey) anchor = cursor;
			tell(1);
			if (e.shiftKey) choose(); else c.redraw();
		} else if (e.key === "Enter" && cursor >= 0) {
			anchor = cursor;
			choose();
		} else if (e.key === "Escape") {
			anchor = -1;
			select(null);
		} else return;
		e.preventDefault();
	});
	return {root: el("div", {}, c.canvas, status), redraw: c.redraw};
}

/** A heat map over time. @param {string} label @param {Table | {starts: number[], m: {times: number[]}}} t @param {{labels: string[], values: Float64Array, log?: boolean, show?: (v: number) => string}} d log: colors are for numbers of which few matter, too */
function heatMap(label, t, d) {
	const n = t.m.times.length;
	const state_ = {d};
	const row = () => Math.min(Math.max(Math.floor(260 / state_.d.labels.length), 12), 22);
	const picture = timePicture(label, t, {
		left: 124, height: () => state_.d.labels.length * row(),
		draw(ctx, x, _w, height) {
			const {labels, values} = state_.d, h = row();
			let most = 0;
			for (const v of values) if (v > most) most = v;
			ctx.fillStyle = heat(0);
			ctx.fillRect(124, 0, _w - 124, height);
			for (let g = 0; g < labels.length; g++) {
				for (let c = 0; c < n; c++) {
					const v = values[g * n + c];
					if (!(v > 0)) continue;
					ctx.fillStyle = heat(0.12 + 0.88 * (state_.d.log ? Math.log1p(v) / Math.log1p(most) : Math.sqrt(v / most)));
					const x0 = x(c), x1 = x(c + 1);
					ctx.fillRect(x0, g * h, Math.max(x1 - x0 - (x1 - x0 > 6 ? 1 : 0), 1), h - 1);
				}
			}
			ctx.textAlign = "right";
			ctx.fillStyle = css("--dim");
			for (let g = 0; g < labels.length; g++) ctx.fillText(cut(labels[g], 16), 117, g * h + h / 2);
		},
		tell(c, y) {
			const g = Math.min(Math.max(Math.floor(y / row()), 0), state_.d.labels.length - 1), v = state_.d.values[g * n + c] || 0;
			return state_.d.labels[g] + ": " + (state_.d.show || count)(v);
		},
	});
	const table = lazyTable("Values of this heat map as a table", () => ({
		head: ["until", ...state_.d.labels],
		rows: Array.from({length: n}, (_, c) => [clock(t.m.times[c]), ...state_.d.labels.map((_l, g) => (state_.d.show || count)(state_.d.values[g * n + c] || 0))]),
	}));
	const root = el("div", {class: "heat"}, picture.root, table.root);
	return {root, redraw: picture.redraw, set(/** @type {typeof d} */ next) { state_.d = next; table.stale(); picture.redraw(); }};
}

/** @param {string} text @param {number} n */
function cut(text, n) {
	const all = Array.from(text);
	return all.length <= n ? text : all.slice(0, n - 1).join("") + "…";
}

/** A table that is made when it is opened: what a picture shows, for those who do not see it. @param {string} label @param {() => {head: string[], rows: string[][]}} make */
function lazyTable(label, make) {
	const body = el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label});
	const root = el("details", {}, el("summary", {}, label), body);
	let fresh = false;
	const fill = () => {
		if (fresh || !root.open) return;
		fresh = true;
		const {head, rows} = make();
		const table = el("table", {}, el("caption", {class: "hidden"}, label), el("thead", {}, el("tr", {}, ...head.map((h, i) => el("th", {scope: "col", class: i ? "n" : ""}, el("span", {}, h))))));
		const tbody = el("tbody");
		for (const r of rows.slice(0, 1000)) tbody.append(el("tr", {}, ...r.map((v, i) => el("td", {class: i ? "n" : ""}, v))));
		table.append(tbody);
		body.replaceChildren(table);
	};
	root.addEventListener("toggle", fill);
	return {root, stale() { fresh = false; fill(); }};
}

/** Lines over time. @param {string} label @param {Table} t @param {() => {name: string, values: Float64Array}[]} make @param {(v: number) => string} show */
function lineChart(label, t, make, show) {
	const n = t.m.times.length;
	let lines = make();
	const most = () => { let m = 0; for (const l of lines) for (const v of l.values) if (v > m) m = v; return m; };
	const least = () => { let m = 0; for (const l of lines) for (const v of l.values) if (v < m) m = v; return m; };
	const legend = el("div", {class: "legend"});
	const picture = timePicture(label, t, {
		left: 74, height: () => 170,
		draw(ctx, x, w, height) {
			const hi = most() || 1, lo = least(), y = (/** @type {number} */ v) => height - 8 - (v - lo) / (hi - lo || 1) * (height - 20);
			ctx.strokeStyle = css("--line");
			ctx.fillStyle = css("--dim");
			ctx.textAlign = "right";
			ctx.lineWidth = 1;
			for (let i = 0; i <= 4; i++) {
				const v = lo + (hi - lo) * i / 4;
				ctx.beginPath();
				ctx.moveTo(74, Math.round(y(v)) + .5);
				ctx.lineTo(w, Math.round(y(v)) + .5);
				ctx.stroke();
				ctx.fillText(show(v), 68, y(v));
			}
			lines.forEach((l, i) => {
				ctx.strokeStyle = ctx.fillStyle = COLORS[i % COLORS.length];
				ctx.lineWidth = 1.8;
				ctx.beginPath();
				let pen = false;
				for (let c = 0; c < n; c++) {
					const v = l.values[c];
					if (isNaN(v)) { pen = false; continue; }
					const px = (x(c) + x(c + 1)) / 2;
					if (pen) ctx.lineTo(px, y(v)); else ctx.moveTo(px, y(v));
					pen = true;
					if (n < 60) ctx.rect(px - 1, y(v) - 1, 2, 2);
				}
				ctx.stroke();
			});
		},
		tell: (c) => lines.map((l) => l.name + " " + show(l.values[c] || 0)).join("   "),
	});
	const table = lazyTable("Values of these lines as a table", () => ({
		head: ["until", ...lines.map((l) => l.name)], rows: Array.from({length: n}, (_, c) => [clock(t.m.times[c]), ...lines.map((l) => isNaN(l.values[c]) ? "" : show(l.values[c]))]),
	}));
	const label_ = () => legend.replaceChildren(...(lines.length > 1 || lines[0] && lines[0].name ? lines.map((l, i) => {
		const mark = el("i");
		mark.style.background = COLORS[i % COLORS.length];
		return el("span", {}, mark, cut(l.name || "all", 60));
	}) : []));
	label_();
	return {
		root: el("div", {class: "lines"}, picture.root, legend, table.root),
		redraw: picture.redraw,
		renew() { lines = make(); label_(); table.stale(); picture.redraw(); },
	};
}

// ---- Tables ----

/**
 * @typedef {{title: string, n?: boolean, text(row: number): string, value?(row: number): number, bar?(row: number): number, base?(row: number): number, style?(row: number): string, line?: boolean}} Col
 */

/** A table of which only the visible rows are in the document.
 * @param {string} label @param {Col[]} cols @param {() => number} rows @param {{sort?: number, down?: boolean, search?: (row: number) => string, pick?: (row: number) => void, picked?: () => number, noun?: string, keep?: (row: number) => boolean}} o */
function grid(label, cols, rows, o) {
	const H = 22;
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
		return el("th", {scope: "col", class: c.n ? "n" : ""}, b);
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
				const v = new Float64Array(n);
				for (const i of order) v[i] = c.value(i);
				const by = (/** @type {number} */ a, /** @type {number} */ b) => (down ? v[b] - v[a] : v[a] - v[b]) || a - b;
				if (k > 4 * HEAD) { // the first rows are sorted now, the others when they are seen
					const limits = Float64Array.from(order, (i) => v[i]).sort(), limit = down ? limits[k - HEAD] : limits[HEAD - 1];
					const head = order.filter((i) => down ? v[i] > limit : v[i] < limit), tail = order.filter((i) => !(down ? v[i] > limit : v[i] < limit));
					head.sort(by);
					order.set(head);
					order.set(tail, head.length);
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
		found.textContent = count(k) + (k < n ? " of " + count(n) : "") + " " + (o.noun || "rows");
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
					bar.style.width = 100 * Math.max(Math.min(c.bar(i), 1), 0) + "%";
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
	const search = o.search ? searchBox("Filter (text or regular expression)", (text) => { pattern = matcher(text); box.scrollTop = top = 0; arrange(); }) : null;
	const root = el("div", {}, search ? el("div", {class: "tools"}, search, found) : null, box);
	return {root, arrange, redraw() { drawn = ""; draw(); }};
}

// ---- Flame graphs ----

/** @type {Object<string, [number, number, number][]>} hue, saturation, lightness: light and dark */
const KINDS = {u: [[40, 95, 68], [36, 60, 44]], k: [[16, 90, 70], [12, 52, 44]], l: [[208, 60, 76], [210, 36, 38]], i: [[125, 50, 74], [135, 30, 38]]};

/** A tree of stacks, in preorder, that two recordings may share. */
class Tree {
	/** @param {{name: string, kind: string}[]} frames @param {number[]} depth @param {number[]} frame */
	constructor(frames, depth, frame) {
		const n = depth.length;
		this.n = n;
		this.frames = frames;
		this.depth = Int32Array.from(depth);
		this.frame = Int32Array.from(frame);
		this.parent = new Int32Array(n);
		this.end = new Int32Array(n); // after the last node below it
		const open = [];
		for (let i = 0; i < n; i++) {
			while (open.length > depth[i]) this.end[/** @type {number} */ (open.pop())] = i;
			this.parent[i] = open.length ? open[open.length - 1] : -1;
			open.push(i);
		}
		while (open.length) this.end[/** @type {number} */ (open.pop())] = n;
	}

	/** The sum at each node of the values of rows. @param {number[] | Int32Array} leaf @param {Float64Array} values */
	totals(leaf, values) {
		const out = new Float64Array(this.n + 1); // the last one: of all
		for (let r = 0; r < values.length; r++) {
			const v = values[r];
			if (!(v > 0)) continue;
			out[this.n] += v;
			if (leaf[r] >= 0) out[leaf[r]] += v;
		}
		for (let i = this.n - 1; i >= 0; i--) if (this.parent[i] >= 0) out[this.parent[i]] += out[i];
		return out;
	}
}

/** One tree of two. @param {Data} a @param {RawTree} x @param {Data} b @param {RawTree} y */
function union(a, x, b, y) {
	/** @typedef {{children: Map<string, Node_>, name: string, kind: string, at: number}} Node_ */
	/** @param {string} name @param {string} kind @returns {Node_} */
	const node = (name, kind) => ({children: new Map(), name, kind, at: -1});
	const root = node("", "");
	/** @param {Data} d @param {RawTree} t */
	const put = (d, t) => {
		/** @type {Node_[]} */
		const nodes = [], open = [root];
		for (let i = 0; i < t.depth.length; i++) {
			open.length = t.depth[i] + 1;
			const f = /** @type {{name: string, kind: string}[]} */ (d.frames)[t.frame[i]], key = f.kind + f.name, up = open[open.length - 1];
			let e = up.children.get(key);
			if (!e) up.children.set(key, e = node(f.name, f.kind));
			nodes.push(e);
			open.push(e);
		}
		return nodes;
	};
	const ofA = put(a, x), ofB = put(b, y);
	/** @type {{name: string, kind: string}[]} */
	const frames = [];
	/** @type {Map<string, number>} */
	const ids = new Map();
	/** @type {number[]} */
	const depth = [];
	/** @type {number[]} */
	const frame = [];
	/** @param {Node_} e @param {number} d */
	const walk = (e, d) => {
		for (const c of Array.from(e.children.values()).sort((p, q) => p.name < q.name ? -1 : p.name > q.name ? 1 : 0)) {
			const key = c.kind + c.name;
			let id = ids.get(key);
			if (id === undefined) { ids.set(key, id = frames.length); frames.push({name: c.name, kind: c.kind}); }
			c.at = depth.length;
			depth.push(d);
			frame.push(id);
			walk(c, d + 1);
		}
	};
	walk(root, 0);
	const tree = new Tree(frames, depth, frame);
	return {tree, leafA: x.leaf.map((i) => i < 0 ? -1 : ofA[i].at), leafB: y.leaf.map((i) => i < 0 ? -1 : ofB[i].at)};
}

/** @param {Table} t @param {{data: Data, table: Table} | null} base @param {(v: number) => string} show */
function flame(t, base, show) {
	const raw = /** @type {RawTree} */ (t.m.tree);
	let tree = new Tree(state.data.frames || [], raw.depth, raw.frame), leaf = /** @type {number[]} */ (raw.leaf), leafBase = /** @type {number[]} */ ([]);
	if (base && base.table.m.tree) {
		const u = union(state.data, raw, base.data, base.table.m.tree);
		tree = u.tree; leaf = u.leafA; leafBase = u.leafB;
	}
	const ROW = 18;
	let totals = new Float64Array(0), baseTotals = /** @type {Float64Array | null} */ (null), icicle = true, zoom = -1, hover = -2, current = -1;
	let hits = /** @type {Uint8Array | null} */ (null), byBase = false;
	/** @type {{i: number, x: number, w: number, d: number}[]} */
	let boxes = [];
	let levels = 1, width = 1;
	const ALL = tree.n;
	const status = el("p", {class: "status", role: "status"}), matched = el("span", {class: "status", role: "status"});
	const widths = () => byBase && baseTotals ? baseTotals : totals;
	/** @param {number} i */
	const name = (i) => i < 0 || i === ALL ? "all" : tree.frames[tree.frame[i]].name;
	/** @param {number} i */
	const value = (i) => totals[i < 0 ? ALL : i];
	/** How much more of the whole a node is than it was. @param {number} i */
	const change = (i) => baseTotals ? value(i) / (totals[ALL] || 1) - baseTotals[i < 0 ? ALL : i] / (baseTotals[ALL] || 1) : 0;

	/** @type {string[]} of frames, in the theme that is shown */
	let colors = [];
	let colorsOf = "", mark = "";
	/** @param {number} i */
	const color = (i) => {
		const theme = document.documentElement.dataset.theme || "";
		if (theme !== colorsOf) { colorsOf = theme; colors = []; mark = css("--mark"); }
		if (hits && i >= 0 && hits[tree.frame[i]]) return mark;
		if (i < 0 || baseTotals) return colorOf(i);
		const f = tree.frame[i];
		return colors[f] || (colors[f] = colorOf(i));
	};
	/** @param {number} i */
	const colorOf = (i) => {
		if (i < 0) return dark() ? "#48505c" : "#d4d9e0";
		if (baseTotals) {
			const c = Math.max(Math.min(change(i) / 0.1, 1), -1), s = Math.sqrt(Math.abs(c)), l = dark() ? 32 + 16 * s : 92 - 30 * s;
			return "hsl(" + (c > 0 ? 6 : 214) + "," + Math.round(8 + 78 * s) + "%," + Math.round(l) + "%)";
		}
		const [h, s, l] = (KINDS[tree.frames[tree.frame[i]].kind] || KINDS.u)[dark() ? 1 : 0];
		let hash = 0;
		for (const c of name(i)) hash = (hash * 31 + c.charCodeAt(0)) | 0;
		return "hsl(" + (h + (hash & 7) - 4) + "," + s + "%," + (l + ((hash >> 3) & 7) - 4) + "%)";
	};

	const copy = document.createElement("canvas"); // of what is drawn, without the outline of a box
	const c = canvas("Flame graph of " + t.m.name + ". Arrow keys move between the boxes, Enter zooms, Escape shows all; the table below has the functions.", (ctx, w) => {
		if (w !== width || stale) { width = w; layout(); stale = false; }
		const height = levels * ROW;
		if (c.canvas.style.height !== height + "px") return height; // it is drawn when it has its height
		ctx.clearRect(0, 0, w, height);
		const strong = dark() ? "#fff" : "#1c2430", faded = zoom < 0 ? 0 : tree.depth[zoom] + 1;
		for (const b of boxes) {
			const y = (icicle ? b.d : levels - 1 - b.d) * ROW;
			ctx.fillStyle = color(b.i);
			if (b.d < faded) ctx.globalAlpha = .55;
			ctx.fillRect(b.x, y, Math.max(b.w - .6, .4), ROW - 1);
			if (b.d < faded) ctx.globalAlpha = 1;
			if (b.w > 26) {
				ctx.fillStyle = hits && b.i >= 0 && hits[tree.frame[b.i]] ? dark() ? "#111" : "#fff" : strong;
				ctx.fillText(cut(name(b.i), Math.floor((b.w - 6) / 6.95)), b.x + 3, y + ROW / 2);
			}
		}
		copy.width = c.canvas.width;
		copy.height = c.canvas.height;
		/** @type {CanvasRenderingContext2D} */ (copy.getContext("2d")).drawImage(c.canvas, 0, 0);
		c.canvas.dataset.boxes = String(boxes.length);
		c.canvas.dataset.zoom = name(zoom);
		outline();
		return height;
	});
	let stale = true;
	const redrawAll = () => { stale = true; c.redraw(); };
	/** Draws the outline of the box below the pointer, or of the current one. */
	const outline = () => {
		const i = hover !== -2 ? hover : document.activeElement === c.canvas ? current : -2, b = i === -2 ? null : boxes.find((b) => b.i === i);
		if (!b) return;
		const y = (icicle ? b.d : levels - 1 - b.d) * ROW, ctx = c.canvas.getContext("2d");
		ctx.strokeStyle = css("--text");
		ctx.lineWidth = 1.5;
		ctx.strokeRect(b.x + .5, y + .5, Math.max(b.w - 1.5, 1), ROW - 2);
	};
	const point = () => {
		const ctx = c.canvas.getContext("2d");
		ctx.save();
		ctx.setTransform(1, 0, 0, 1, 0, 0);
		ctx.clearRect(0, 0, c.canvas.width, c.canvas.height);
		if (copy.width) ctx.drawImage(copy, 0, 0);
		ctx.restore();
		outline();
	};

	/** Places the boxes that are wide enough to be seen. */
	const layout = () => {
		boxes = [];
		const v = widths(), whole = v[zoom < 0 ? ALL : zoom] || 1, scale = width / whole;
		levels = 1;
		boxes.push({i: -1, x: 0, w: width, d: 0});
		if (zoom >= 0) {
			for (let i = zoom; i >= 0; i = tree.parent[i]) boxes.push({i, x: 0, w: width, d: tree.depth[i] + 1});
			levels = tree.depth[zoom] + 2;
		}
		const from = zoom < 0 ? 0 : zoom + 1, to = zoom < 0 ? tree.n : tree.end[zoom], base = zoom < 0 ? 0 : tree.depth[zoom] + 1;
		/** @type {number[]} where the next child begins, by depth */
		const next = [];
		next[base] = 0;
		for (let i = from; i < to;) {
			const d = tree.depth[i], x = next[d], w = v[i] * scale;
			next[d] = x + w;
			if (w < .6) { i = tree.end[i]; continue; }
			next[d + 1] = x;
			boxes.push({i, x, w, d: d + 1});
			if (d + 2 > levels) levels = d + 2;
			i++;
		}
	};

	/** @param {number} i */
	const describe = (i) => {
		const v = value(i), all = totals[ALL] || 1;
		let text = name(i) + ": " + show(v) + " (" + (100 * v / all).toFixed(2) + "% of all";
		if (baseTotals) { const d = 100 * change(i); text += ", " + (d >= 0 ? "+" : "−") + Math.abs(d).toFixed(2) + " points against the base"; }
		return text + ")";
	};
	const tell = (/** @type {number} */ i) => { status.textContent = i === -2 ? zoom >= 0 ? "Zoomed to " + describe(zoom) : "Click a box to zoom." : describe(i); };
	/** @param {MouseEvent} e */
	const boxAt = (e) => {
		const r = c.canvas.getBoundingClientRect(), x = e.clientX - r.left, row = Math.floor((e.clientY - r.top) / ROW), d = icicle ? row : levels - 1 - row;
		const b = boxes.find((b) => b.d === d && x >= b.x && x < b.x + Math.max(b.w, 1));
		return b ? b.i : -2;
	};
	const zoomTo = (/** @type {number} */ i) => { zoom = i; current = i; reset.hidden = zoom < 0; tell(-2); redrawAll(); };
	c.canvas.addEventListener("mousemove", (/** @type {MouseEvent} */ e) => { const i = boxAt(e); if (i !== hover) { hover = i; tell(i); point(); } });
	c.canvas.addEventListener("mouseleave", () => { hover = -2; tell(-2); point(); });
	c.canvas.addEventListener("click", (/** @type {MouseEvent} */ e) => { const i = boxAt(e); if (i >= -1) zoomTo(i); });
	c.canvas.addEventListener("focus", point);
	c.canvas.addEventListener("blur", point);
	c.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => {
		const shown = (/** @type {number} */ d) => boxes.filter((b) => b.d === d).sort((p, q) => p.x - q.x);
		const b = boxes.find((b) => b.i === current) || boxes[0], key = icicle ? {ArrowUp: "ArrowDown", ArrowDown: "ArrowUp"}[e.key] || e.key : e.key;
		let next = /** @type {number | undefined} */ (undefined);
		if (key === "ArrowUp") next = shown(b.d + 1).find((p) => p.x + p.w > b.x + .01 && p.x < b.x + b.w)?.i;
		else if (key === "ArrowDown") next = b.i >= 0 ? tree.parent[b.i] : -1;
		else if (key === "ArrowLeft") next = shown(b.d).filter((p) => p.x < b.x).pop()?.i;
		else if (key === "ArrowRight") next = shown(b.d).find((p) => p.x > b.x)?.i;
		else if (key === "Enter") { zoomTo(current); tell(current); e.preventDefault(); return; }
		else if (key === "Escape") { zoomTo(-1); e.preventDefault(); return; }
		else return;
		e.preventDefault();
		if (next === undefined) return;
		current = next;
		tell(next);
		point();
	});

	const find = (/** @type {string} */ text) => {
		const m = matcher(text);
		hits = m ? Uint8Array.from(tree.frames, (f) => m(f.name) ? 1 : 0) : null;
		matched.textContent = "";
		if (hits) {
			let sum = 0;
			for (let i = 0; i < tree.n;) {
				if (hits[tree.frame[i]]) { sum += totals[i]; i = tree.end[i]; } else i++;
			}
			matched.textContent = "Matched: " + percent(sum / (totals[ALL] || 1));
		}
		c.redraw();
	};
	const reset = el("button", {hidden: true, onclick: () => zoomTo(-1)}, "Reset zoom");
	/** @param {string} text @param {() => boolean} get @param {(on: boolean) => void} set */
	const toggle = (text, get, set) => {
		const b = el("button", {"aria-pressed": String(get()), onclick() { set(!get()); b.setAttribute("aria-pressed", String(get())); redrawAll(); }}, text);
		return b;
	};

	// Functions: the table of the same values.
	let self = new Float64Array(0), total = new Float64Array(0), baseTotal = /** @type {Float64Array | null} */ (null);
	/** What each function has of its own. @param {Float64Array} v */
	const ofItsOwn = (v) => {
		const own = new Float64Array(tree.frames.length), {frame, parent} = tree;
		for (let i = 0; i < tree.n; i++) {
			own[frame[i]] += v[i];
			if (parent[i] >= 0) own[frame[parent[i]]] -= v[i];
		}
		return own;
	};
	/** What each function has with those below it; recursion counts once. @param {Float64Array} v */
	const ofAll = (v) => {
		const all = new Float64Array(tree.frames.length), open = new Int32Array(tree.frames.length), stack = [];
		for (let i = 0; i < tree.n; i++) {
			while (stack.length > tree.depth[i]) open[tree.frame[/** @type {number} */ (stack.pop())]]--;
			const f = tree.frame[i];
			if (!open[f]) all[f] += v[i];
			open[f]++;
			stack.push(i);
		}
		return all;
	};
	/** @type {Col[]} */
	const cols = [
		{title: "function", text: (f) => tree.frames[f].name},
		{title: "self", n: true, text: (f) => show(self[f]), value: (f) => self[f]},
		{title: "share of self", text: () => "", bar: (f) => self[f] / (totals[ALL] || 1)},
		{title: "self %", n: true, text: (f) => (100 * self[f] / (totals[ALL] || 1)).toFixed(1) + "%", value: (f) => self[f]},
		{title: "total %", n: true, text: (f) => (100 * total[f] / (totals[ALL] || 1)).toFixed(1) + "%", value: (f) => total[f]},
	];
	if (base) cols.push({
		title: "change of total", n: true, value: (f) => total[f] / (totals[ALL] || 1) - (baseTotal ? baseTotal[f] : 0) / (baseTotals && baseTotals[ALL] || 1),
		text(f) { const d = 100 * /** @type {any} */ (this).value(f); return (d >= 0 ? "+" : "−") + Math.abs(d).toFixed(1) + " pt"; },
		style(f) { const d = /** @type {any} */ (this).value(f); return d > 0.005 ? "more" : d < -0.005 ? "less" : ""; },
	});
	const list = grid("Functions", cols, () => tree.frames.length, {sort: 1, search: (f) => tree.frames[f].name, noun: "functions", keep: (f) => total[f] > 0 && tree.frames[f].kind !== "l"});
	const details = el("details", {}, el("summary", {}, "Functions as a table"), list.root);
	const fill = () => {
		if (!details.open) return;
		total = ofAll(totals);
		if (baseTotals) baseTotal = ofAll(baseTotals);
		list.arrange();
	};
	details.addEventListener("toggle", fill);

	const update = () => {
		totals = tree.totals(leaf, t.values());
		if (t.counted) totals = tree.totals(leaf, t.sums("a"));
		baseTotals = base ? tree.totals(leafBase, base.table.counted ? base.table.sums("a", null) : base.table.values(null)) : null;
		self = ofItsOwn(totals);
		if (zoom >= 0 && !totals[zoom]) zoom = -1;
		stale = true;
		tell(-2);
		fill();
		find(box.value);
	};
	const box = searchBox("Search functions (text or regular expression)", find);
	const picture = el("div", {class: "picture"}, c.canvas);
	const root = el("div", {class: "flame"},
		el("div", {class: "tools"}, box, matched, toggle("Root at the bottom", () => !icicle, (on) => { icicle = !on; requestAnimationFrame(() => { picture.scrollTop = icicle ? 0 : picture.scrollHeight; }); }), base ? toggle("Widths of the base", () => byBase, (on) => { byBase = on; }) : null, reset),
		status, picture, details);
	return {
		root, update, redraw: redrawAll,
		/** The function with the largest value of its own; if nearly all stacks end in it, that of user space which called the kernel most.
		 * @returns {{name: string, share: number, calls: boolean} | null} */
		top() {
			const best = (/** @type {Float64Array} */ v) => {
				let f = -1;
				for (let i = 0; i < v.length; i++) if (tree.frames[i].kind !== "l" && (f < 0 || v[i] > v[f])) f = i;
				return f;
			};
			const f = best(self), all = totals[ALL];
			if (f < 0 || !all) return null;
			if (self[f] < .9 * all) return {name: tree.frames[f].name, share: self[f] / all, calls: false};
			const user = new Float64Array(tree.frames.length), {frame, parent} = tree;
			for (let i = 0; i < tree.n; i++) {
				const up = parent[i];
				if (tree.frames[frame[i]].kind === "k") {
					if (up >= 0 && tree.frames[frame[up]].kind !== "k") user[frame[up]] += totals[i];
				}
			}
			const u = best(user);
			return u < 0 || !user[u] ? {name: tree.frames[f].name, share: self[f] / all, calls: false} : {name: tree.frames[u].name, share: user[u] / all, calls: true};
		},
		total: () => totals[ALL],
	};
}

// ---- Cards ----

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

/** The map of the base with the same name and meaning. @param {RawMap} m @returns {Table | null} */
function ofBase(m) {
	const b = state.base && state.base.maps.find((x) => x.name === m.name && x.shape === m.shape && (x.keys || []).length === (m.keys || []).length);
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
	/** @type {number[]} */
	let ids = [], names = /** @type {string[]} */ ([]);
	if (part >= 0) {
		const k = /** @type {Key[]} */ (t.m.keys)[part];
		ids = k.at;
		names = k.texts;
	} else {
		ids = Array.from({length: t.rows}, (_, i) => i);
	}
	const sums = new Float64Array(part >= 0 ? names.length : t.rows);
	for (let i = 0; i < t.rows; i++) if (v[i] > 0) sums[ids[i]] += v[i];
	let top = largest(sums, n);
	let others = 0;
	const used = sums.reduce((k, x) => k + (x > 0 ? 1 : 0), 0);
	if (used > top.length) { others = used - top.length + 1; top = top.slice(0, n - 1); }
	const at = new Int32Array(sums.length).fill(others ? top.length : -1);
	top.forEach((g, i) => { at[g] = i; });
	const labels = top.map((g) => part >= 0 ? names[g] : t.key(g) || t.m.name);
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
	const base = ofBase(t.m), m = t.m;
	const {root, says} = card(m, "stacks, " + (m.shape === "count" ? "samples" : m.shape) + (t.unit ? " in " + t.unit : ""));
	if (m.cut) {
		const of = num(m.cut.of), why = [[m.cut.depth, "have as many frames as the script asks for"], [m.cut.unwind, "could not be unwound to the end"], [m.cut.lost, "were lost"]];
		root.append(el("ul", {class: "health"}, ...why.filter(([n]) => num(/** @type {Num} */ (n))).map(([n, text]) => el("li", {class: "warning"}, percent(num(/** @type {Num} */ (n)) / of) + " of the stacks " + text))));
	}
	const views = /** @type {View[]} */ ([]);
	if (t.columns.length > 1) {
		const {labels, group} = groupsOf(t, m.keys && m.keys.length ? m.host ? 0 : mainPart(t) : -1, 9);
		const single = !m.keys || !m.keys.length;
		const h = heatMap("Heat map of " + m.name + " over time", t, single ? {labels: ["all"], values: t.matrix(() => 0, 1), show} : {labels, values: t.matrix(group, labels.length), show});
		root.append(h.root, el("p", {class: "note"}, "Columns are intervals of the run (--every, or print()): a selected range shows its own flame graph."));
		views.push({update: h.redraw, redraw: h.redraw});
	}
	const f = flame(t, base && {data: /** @type {Data} */ (state.base), table: base}, show);
	root.append(f.root);
	if (base) root.append(el("p", {class: "note"}, "Red: a larger share of the whole than in the base; blue: a smaller one. Widths are those of this run."));
	const update = () => {
		f.update();
		const top = f.top(), parts = [strong(show(f.total()))];
		const part = mainPart(t);
		if (part >= 0 && !(m.keys || [])[part].numeric) {
			const v = t.values(), k = /** @type {Key[]} */ (m.keys)[part], sums = new Float64Array(k.texts.length);
			for (let i = 0; i < t.rows; i++) if (v[i] > 0) sums[k.at[i]] += v[i];
			const best = largest(sums, 3), all = sums.reduce((a, b) => a + b, 0);
			if (all) parts.push(": ", ...best.flatMap((g, i) => [i ? ", " : "", strong(k.texts[g] || "(none)"), " " + percent(sums[g] / all)]));
		}
		if (top) parts.push(top.calls ? ". Most is in calls of the kernel by " : ". Most of its own has ", strong(top.name), " (" + percent(top.share) + ").");
		says.replaceChildren(...parts);
	};
	views.push({update, redraw: f.redraw});
	return {root, views};
}

/** Rows of a picture of a histogram, from the highest to the lowest: a bucket each, or several if there are many. @param {Table} t */
function rowsOf(t) {
	const size = Math.ceil(t.buckets / 36), n = Math.ceil(t.buckets / size);
	return {n, row: (/** @type {number} */ b) => n - 1 - Math.floor(b / size), labels: Array.from({length: n}, (_, i) => t.bucket((n - 1 - i) * size, Math.min((n - i) * size, t.buckets) - 1))};
}

/** @param {Table} t */
function histogramCard(t) {
	const m = t.m, base = ofBase(m), baseRows = base ? rowsByKey(base) : null;
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
		{title: "up to", n: true, text: (b) => { let s = 0; for (let i = 0; i <= b; i++) s += h[i]; return percent(s / (all || 1)); }},
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
		tiles.replaceChildren(...[["values", 0], ...q].map(([name, x]) => el("div", {class: "tile"}, el("span", {}, String(name)), el("b", {}, x === 0 ? short(all) : quantile(t, h, Number(x))),
			hb && allBase ? el("span", {}, "was " + (x === 0 ? short(allBase) : quantile(t, hb, Number(x)))) : null)));
		const k = h.indexOf(most);
		says.replaceChildren(...all ? [...(row >= 0 ? [strong(t.key(row)), ": "] : []), "Half of ", strong(count(all)), " values are at most ", strong(quantile(t, h, .5)), ", 99% at most ", strong(quantile(t, h, .99)),
			"; most (" + percent(h[k] / all) + ") are in ", strong(t.bucket(k)), "."] : ["No values" + (state.range ? " in this part of the run." : ".")]);
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
		/** @type {Col[]} */
		const kcols = (m.keys || []).map((k, p) => /** @type {Col} */ ({title: k.name, n: k.numeric, text: (r) => t.part(r, p), value: k.numeric ? (r) => Number(t.part(r, p)) : undefined}));
		kcols.push({title: "count", n: true, text: (r) => count(t.values()[r]), value: (r) => t.values()[r]}, {title: "share", text: () => "", bar: (r) => t.values()[r] / (keyMost || 1)});
		for (const [name, q] of /** @type {[string, number][]} */ ([["p50", .5], ["p99", .99], ["max ≤", 1]])) kcols.push({title: name, n: true, text: (r) => quantile(t, t.histogramOf(r), q)});
		let keyMost = 1;
		const pick = (/** @type {number} */ r) => { row = row === r ? -1 : r; allButton.hidden = row < 0; refresh(); if (map) map.set(heatOf()); keys.redraw(); };
		const allButton = el("button", {hidden: true, onclick() { row = -1; allButton.hidden = true; refresh(); if (map) map.set(heatOf()); keys.redraw(); }}, "Show all keys");
		const keys = grid("Keys of " + m.name, kcols, () => t.rows, {sort, search: (r) => t.key(r), pick, picked: () => row, noun: "keys", keep: (r) => t.values()[r] > 0});
		root.append(el("div", {class: "tools"}, el("span", {class: "status"}, "Choose a key to see its histogram."), allButton), keys.root);
		if (m.host) root.insertBefore(hostHistograms(t, views), root.lastChild);
		views.push({update() { keyMost = Math.max(...largest(t.values(), 1).map((r) => t.values()[r]), 1); keys.arrange(); }, redraw: keys.redraw});
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
	const m = t.m, base = ofBase(m), baseRows = base ? rowsByKey(base) : null;
	const {root, says} = card(m, m.shape === "plain" ? "values" : m.shape === "tseries" ? "time series" : m.shape + (m.tree ? " by stack" : ""));
	const views = /** @type {View[]} */ ([]);
	const rate = !m.level && !t.counted, timed = rate && (state.data.duration > 0 || t.columns.length > 1), mean = t.counted && m.shape === "avg";
	let v = t.values(), n = t.counted ? t.sums("n") : v, sum = 0, most = 1;
	/** @param {number} r */
	const shown = (r) => mean ? v[r] / (n[r] || 1) : v[r];
	if (t.columns.length > 1) {
		const part = m.host ? -1 : -1, {labels, group} = groupsOf(t, part, m.level ? 6 : 7);
		const names = m.scalar ? [m.name] : labels;
		const lines = lineChart((m.level || mean ? "Values" : "Rates") + " of " + m.name + " over time", t, () => {
			const a = t.matrix((r) => group(r), labels.length), c = t.columns.length, k = t.counted ? t.matrix((r) => group(r), labels.length, "n") : null;
			return names.map((name, g) => ({name: cut(name, 40), values: Float64Array.from({length: c}, (_, i) => {
				const x = a[g * c + i];
				if (mean && k) return k[g * c + i] ? x / k[g * c + i] : NaN;
				return m.level ? x : x / Math.max((m.times[i] - t.starts[i]) / 1000, 1e-6);
			})}));
		}, (x) => m.level || mean ? show(x) : short(x) + "/s");
		root.append(lines.root);
		views.push({update: lines.redraw, redraw: lines.redraw});
	}
	const keys = m.keys || [];
	/** @type {Col[]} */
	const cols = keys.map((k, p) => ({title: k.name, n: k.numeric, text: (/** @type {number} */ r) => t.part(r, p), value: k.numeric ? (/** @type {number} */ r) => Number(t.part(r, p)) : undefined}));
	const sort = cols.length;
	if (m.texts) cols.push({title: "value", text: (r) => /** @type {string[]} */ (m.texts)[r]});
	else if (t.counted) {
		cols.push({title: "average", n: true, text: (r) => show(v[r] / (n[r] || 1)), value: (r) => v[r] / (n[r] || 1)}, {title: "of the largest", text: () => "", bar: (r) => shown(r) / most}, {title: "count", n: true, text: (r) => count(n[r]), value: (r) => n[r]}, {title: "total", n: true, text: (r) => show(v[r]), value: (r) => v[r]});
	} else {
		cols.push({title: m.shape === "plain" || m.shape === "tseries" ? "value" : m.shape, n: true, text: (r) => exactOf(r) || (isNaN(v[r]) ? "" : t.unit ? show(v[r]) : count(v[r])), value: (r) => isNaN(v[r]) ? -Infinity : v[r]});
		cols.push({title: "of the largest", text: () => "", bar: (r) => v[r] / most});
		if (rate) cols.push({title: "share", n: true, text: (r) => percent(v[r] / (sum || 1)), value: (r) => v[r]});
		if (timed) cols.push({title: "per second", n: true, text: (r) => short(v[r] / t.seconds()), value: (r) => v[r]});
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
		if (m.texts) says.replaceChildren(strong(count(t.rows)), " elements");
		else if (m.scalar) says.replaceChildren(strong(mean || t.counted ? show(v[0] / (n[0] || 1)) : show(v[0] || 0)), ...(timed ? [", ", strong(short((v[0] || 0) / t.seconds())), " a second"] : t.counted ? [" on average, of ", strong(count(n[0] || 0)), " values"] : []));
		else if (!best.length) says.replaceChildren("No values" + (state.range ? " in this part of the run." : "."));
		else says.replaceChildren(...(rate ? [strong(show(sum)), " in ", strong(count(used)), used === 1 ? " element: " : " elements: "] : [mean ? "Largest averages: " : "Largest: "]),
			...best.flatMap((r, i) => [i ? ", " : "", strong(cut(t.key(r), 60)), " " + (rate ? percent(v[r] / (sum || 1)) : show(shown(r)))]));
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

/** @param {RawEvents} e */
function eventsCard(e) {
	const n = e.t.length, at = new Float64Array(n);
	for (let i = 0, t = 0; i < n; i++) at[i] = (t += e.t[i]) / 1000;
	const took = e.d ? Float64Array.from(e.d, num) : null;
	const says = el("p", {class: "answer"});
	const root = el("section", {class: "card", id: "lines", "aria-label": "Lines"}, el("div", {class: "title"}, el("h2", {}, "Lines"), el("span", {class: "kind"}, "what the script printed, at the time when btrun handled it")), says);
	const views = /** @type {View[]} */ ([]);
	const span = Math.max(state.data.duration, n ? at[n - 1] : 0, 1), bins = Math.min(Math.max(Math.floor(n / 3), 20), 200);
	if (n > 3) {
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
	cols.push({title: "line", text: (i) => e.texts[e.x[i]], line: true});
	const g = grid("Lines that the script printed", cols, () => n, {sort: 0, down: false, search: (i) => (e.hosts && e.h ? e.hosts[e.h[i]] + " " : "") + e.texts[e.x[i]], noun: "lines", keep: (i) => !state.range || at[i] >= state.range[0] && at[i] <= state.range[1]});
	root.append(g.root);
	if (e.omitted) root.append(el("p", {class: "note"}, "The page has the first " + count(n) + " lines; " + count(e.omitted) + " are omitted: --from and --to select others."));
	views.push({update() {
		let k = 0, worst = -1;
		const known = /** @type {number[]} */ ([]);
		for (let i = 0; i < n; i++) {
			if (state.range && (at[i] < state.range[0] || at[i] > state.range[1])) continue;
			k++;
			if (took && took[i] >= 0) { known.push(took[i]); if (worst < 0 || took[i] > took[worst]) worst = i; }
		}
		const seconds = (state.range ? state.range[1] - state.range[0] : span) / 1000;
		const parts = [strong(count(k)), k === 1 ? " line" : " lines", ...(state.data.duration > 0 ? [", ", strong(short(k / Math.max(seconds, 1e-6))), " a second"] : [])];
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
			el("span", {}, t.counted ? "average of " + count(n) : t.m.level ? t.m.shape === "plain" ? "" : t.m.shape : state.data.duration > 0 ? short(v / t.seconds()) + " a second" : ""));
	}));
	return {root: el("section", {class: "card", "aria-label": "Numbers"}, el("div", {class: "title"}, el("h2", {}, "Numbers")), box), views: [{update, redraw() {}}]};
}

// ---- The page ----

/** @param {Data} d */
function header(d) {
	const title = /** @type {string} */ (document.title), source = d.script.source.split("\n");
	// The comments at the head of a script say what it answers.
	const about = [];
	for (const line of source) {
		const c = line.match(/^\s*(?:\/\/|\*|\/\*+)\s?(.*?)(?:\*\/)?\s*$/);
		if (line.startsWith("#!") || /SPDX-License-Identifier/.test(line)) continue;
		if (!c || about.length && !c[1].trim()) break;
		if (c[1].trim()) about.push(c[1].trim());
	}
	const facts = el("dl", {class: "facts"});
	/** @param {string} name @param {string | undefined} value @param {string} [tip] */
	const fact = (name, value, tip) => { if (value) facts.append(el("div", {}, el("dt", {}, name), el("dd", {title: tip || null}, value))); };
	if (d.merged && d.hosts && d.hosts.length) fact("hosts", d.hosts.length > 8 ? String(d.hosts.length) : d.hosts.join(", "), d.hosts.join(", "));
	else fact("host", d.host);
	fact("kernel", d.kernel);
	fact("arch", d.arch);
	const date = new Date(d.started + d.offset * 1000).toISOString();
	fact("started", date.slice(0, 10) + " " + date.slice(11, 19) + (d.zone ? " " + d.zone : ""));
	fact("duration", d.duration > 0 ? duration(d.duration * 1e6) : "");
	fact("probes", d.attached ? count(d.attached) : "");
	fact("object", d.object ? d.object.slice(0, 12) : "", d.object);
	fact("parameters", (d.params || []).map((p) => p.name + "=" + p.value).join(" "));
	fact("recording", d.file);
	if (state.base) fact("compared with", state.base.file + (state.base.host ? " (" + state.base.host + ", " + duration(state.base.duration * 1e6) + ")" : ""));
	const theme = el("button", {"aria-pressed": String(dark()), onclick() {
		document.documentElement.dataset.theme = dark() ? "light" : "dark";
		theme.setAttribute("aria-pressed", String(dark()));
		for (const v of state.views) v.redraw();
	}}, "Dark");
	return el("header", {class: "top"}, el("div", {class: "row"}, el("div", {}, el("h1", {class: title === d.script.source.trim() ? "long" : ""}, title), about.length ? el("p", {class: "about"}, about.slice(0, 6).join(" ")) : null), theme), facts, health(d));
}

/** What makes the numbers less than the truth, or nothing. @param {Data} d */
function health(d) {
	const list = el("ul", {class: "health", "aria-label": "Losses and coverage"});
	/** @param {string} kind @param {string} text */
	const add = (kind, text) => list.append(el("li", {class: kind}, text));
	/** @type {Object<string, string>} */
	const causes = {events: "events lost: the buffer was full", map: "updates lost: a map was full", scratch: "events lost: no scratch space", stack: "stacks lost: the stack map was full"};
	const cuts = (d.losses || []).filter((l) => l.cause.startsWith("stack ")), lost = (d.losses || []).filter((l) => !l.cause.startsWith("stack "));
	for (const l of lost) add("error", count(num(l.n)) + " " + (causes[l.cause] || "lost (" + l.cause + ")"));
	for (const text of d.coverage || []) add("warning", text);
	if (cuts.length) add("warning", count(cuts.reduce((n, l) => n + num(l.n), 0)) + " user stacks are cut short: " + cuts.map((l) => l.cause.slice(6) + " " + count(num(l.n))).join(", "));
	for (const m of d.maps) if (m.cut) {
		const cut = num(m.cut.depth) + num(m.cut.unwind) + num(m.cut.lost);
		add("warning", percent(cut / num(m.cut.of)) + " of the stacks of " + m.name + " are cut short");
	}
	if (!d.ended) {
		if (document.documentElement.dataset.live) list.append(el("li", {class: "ok", id: "live"}, "The run goes on"));
		else add("warning", "The recording ends before the run does");
	}
	const errors = (d.messages || []).filter((m) => m.error).length, all = (d.messages || []).length;
	if (errors) add("error", count(errors) + (errors === 1 ? " error" : " errors") + " of the script");
	else if (all) add("warning", count(all) + (all === 1 ? " message" : " messages"));
	if (!list.children.length) add("ok", "Nothing lost, all probes attached for the whole run");
	else if (!lost.length) add("ok", "No events lost");
	return list;
}

/** The script with what each clause produced. @param {Data} d */
function scriptCard(d) {
	const lines = d.script.source.split("\n"), clauses = d.script.clauses || [], code = el("div", {class: "code", tabindex: "0", role: "region", "aria-label": "Source of the script"});
	/** @param {number} from @param {number} to */
	const pre = (from, to) => {
		const p = el("pre");
		for (let i = from; i <= to && i <= lines.length; i++) p.append(el("span", {class: "no", "aria-hidden": "true"}, String(i)), lines[i - 1] + "\n");
		return p;
	};
	let at = 1;
	clauses.forEach((c, i) => {
		if (c.line > at) code.append(el("div", {class: "clause"}, pre(at, c.line - 1)));
		const from = Math.max(c.line, at);
		const shown = (c.maps || []).filter((name) => d.maps.some((m) => m.name === name && (m.rows || m.columns.length)));
		const makes = el("div", {class: "makes"}), n = (c.calls || []).reduce((k, j) => k + (d.events ? d.events.c.filter((x) => x === j).length : 0), 0);
		for (const name of shown) {
			const m = /** @type {RawMap} */ (d.maps.find((x) => x.name === name));
			makes.append(el("a", {href: "#map-" + name.replace(/[^A-Za-z0-9_]/g, "")}, "→ " + name + " (" + (m.scalar ? m.shape : count(m.rows) + (m.rows === 1 ? " key" : " keys")) + ")"));
		}
		if (n) makes.append(el("a", {href: "#lines"}, "→ " + count(n) + (n === 1 ? " line" : " lines")));
		if (from <= c.end) code.append(el("div", {class: "clause" + (makes.childNodes.length ? " made" : ""), id: "clause-" + i}, pre(from, c.end), makes.childNodes.length ? makes : null));
		at = Math.max(at, c.end + 1);
	});
	let end = lines.length;
	while (end >= at && !lines[end - 1].trim()) end--;
	if (end >= at) code.append(el("div", {class: "clause"}, pre(at, end)));
	const messages = d.messages && d.messages.length ? el("ul", {class: "messages", "aria-label": "Messages", tabindex: "0"}, ...d.messages.map((m) => el("li", {class: m.error ? "error" : ""}, clock(m.at) + " " + (m.line ? "line " + m.line + ": " : "") + m.text))) : null;
	return el("aside", {class: "card script", "aria-label": "Script"}, el("div", {class: "title"}, el("h2", {}, "Script"), el("span", {class: "kind mono"}, d.script.file)), d.script.source ? code : el("p", {class: "note"}, "The recording does not have the script."), messages);
}

/** @param {Data} d */
function build(d) {
	const tables = d.maps.filter((m) => m.columns.some((c) => c.r.length)).map((m) => new Table(m));
	/** @type {{order: number, make: () => {root: HTMLElement, views: View[]}}[]} */
	const cards = [];
	/** @type {Table[]} */
	const tiles = [];
	/** @type {Table[]} */
	const scratch = [];
	for (const t of tables) {
		const m = t.m, show = (/** @type {number} */ v) => amount(v, t.unit);
		const samples = (/** @type {number} */ v) => m.shape === "count" && m.tree ? count(v) + (v === 1 ? " sample" : " samples") : show(v);
		if (m.scratch) scratch.push(t);
		else if (m.tree && m.shape !== "min" && m.shape !== "max" && !m.texts) cards.push({order: 0, make: () => flameCard(t, samples)});
		else if (t.histogram) cards.push({order: (m.scalar || m.host && (m.keys || []).length === 1 ? 1 : 2) - (t.unit ? .5 : 0), make: () => histogramCard(t)});
		else if (m.scalar && t.columns.length < 2 || m.scalar && m.texts) tiles.push(t);
		else cards.push({order: m.scalar ? 4 : m.level ? 5 : 3, make: () => tableCard(t, show)});
	}
	if (tiles.length) cards.push({order: 3.5, make: () => tilesCard(tiles)});
	const e = d.events;
	if (e) cards.push({order: e.t.length > 20 ? 2.5 : e.t.length > 3 ? 4.5 : 7, make: () => eventsCard(e)});
	cards.sort((a, b) => a.order - b.order);
	const main = el("main", {id: "results", tabindex: "-1", "aria-label": "Results"});
	if (!cards.length && !scratch.length) main.append(el("section", {class: "card"}, el("p", {class: "answer"}, "The run reported nothing.")));
	for (const c of cards) {
		const made = c.make();
		state.views.push(...made.views);
		main.append(made.root);
	}
	if (scratch.length) {
		const inner = el("div", {}), box = el("details", {class: "card"}, el("summary", {}, "State of the script: " + scratch.map((t) => t.m.name).join(", ")), inner);
		box.addEventListener("toggle", () => {
			if (inner.firstChild) return;
			for (const t of scratch) {
				const made = tableCard(t, (v) => amount(v, t.unit));
				state.views.push(...made.views);
				inner.append(made.root);
				for (const v of made.views) v.update();
			}
		});
		main.append(box);
	}
	const text = el("span", {role: "status"}), range = el("div", {class: "range", hidden: true}, text, el("button", {onclick: () => select(null)}, "Show all"));
	state.views.push({update() {
		const r = state.range;
		range.hidden = !r;
		if (r) text.textContent = "Showing " + clock(r[0]) + " – " + clock(r[1]) + ": " + duration((r[1] - r[0]) * 1e6) + " of " + duration(d.duration * 1e6);
	}, redraw() {}});
	document.addEventListener("keydown", (ev) => { if (ev.key === "Escape" && state.range && !(ev.target instanceof HTMLCanvasElement)) select(null); });
	const app = /** @type {HTMLElement} */ (document.getElementById("app"));
	app.replaceChildren(header(d), range, el("div", {class: "layout"}, main, scriptCard(d)));
	for (const v of state.views) v.update();
}

/** Shows a run while it goes on, unless somebody looks at a part of it. @param {string} url */
async function follow(url) {
	for (;;) {
		await new Promise((done) => setTimeout(done, 1000));
		const note = document.getElementById("live");
		const busy = state.range || document.hidden || Array.from(document.querySelectorAll("input")).some((i) => i.value) || document.querySelector("canvas[data-zoom]:not([data-zoom=all])") || document.querySelector("details[open]");
		if (busy) { if (note) note.textContent = "Paused, while you look at a part"; continue; }
		try {
			const answer = await fetch(url, {cache: "no-store"});
			if (!answer.ok) continue;
			const d = /** @type {Data} */ (await answer.json()), y = window.scrollY;
			state.data = d;
			state.views = [];
			build(d);
			window.scrollTo(0, y);
			document.documentElement.dataset.updates = String(Number(document.documentElement.dataset.updates || 0) + 1);
			if (d.ended) return;
		} catch {
			if (note) note.textContent = "btc report does not answer any more";
			return;
		}
	}
}

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (e) => {
	document.documentElement.dataset.theme = e.matches ? "dark" : "light";
	for (const v of state.views) v.redraw();
});
let before = "";
window.addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme || "light"; document.documentElement.dataset.theme = "light"; for (const v of state.views) v.redraw(); });
window.addEventListener("afterprint", () => { document.documentElement.dataset.theme = before; for (const v of state.views) v.redraw(); });

(async () => {
	try {
		const d = await load("data");
		if (!d) throw new Error("the page has no data");
		state.data = d;
		state.base = await load("base");
		build(d);
		document.documentElement.dataset.ready = String(Math.round(performance.now()));
		const live = document.documentElement.dataset.live;
		if (live) follow(live);
	} catch (e) {
		/** @type {HTMLElement} */ (document.getElementById("app")).replaceChildren(el("p", {class: "fatal", role: "alert"}, "This page cannot be shown: " + (e instanceof Error ? e.message : String(e))));
		throw e;
	}
})();

})();
