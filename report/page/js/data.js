// SPDX-License-Identifier: Apache-2.0
// The data of the page: reading it, the part of the run that is shown, tables of values, quantiles.

/** @param {string} text in base64 @returns {Uint8Array<ArrayBuffer>} */
function decode(text) {
	const fast = /** @type {any} */ (Uint8Array).fromBase64;
	if (fast) return fast.call(Uint8Array, text);
	const raw = atob(text), bytes = new Uint8Array(raw.length);
	for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
	return bytes;
}

/** @param {Uint8Array<ArrayBuffer>} packed */
async function gunzip(packed) {
	const n = packed.length, out = new Uint8Array(new DataView(packed.buffer).getUint32(n - 4, true)); // gzip ends with the size
	const stream = new DecompressionStream("gzip"), writer = stream.writable.getWriter(), reader = stream.readable.getReader();
	writer.write(packed);
	writer.close();
	for (let at = 0;;) {
		const {done, value} = await reader.read();
		if (done) return out.buffer;
		out.set(value, at);
		at += value.length;
	}
}

/** @type {Object<string, any>} types of arrays */
const ARRAYS = {u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array};

/** Reads an element: its value, and what an array is that the value names. @param {string} id @returns {Promise<{value: any, array: (name: any) => any}>} */
async function read(id) {
	let e = document.getElementById(id);
	if (document.readyState === "loading" && !(e && e.nextElementSibling)) { // the parser may be in the midst of it
		await new Promise((done) => document.addEventListener("DOMContentLoaded", done, {once: true}));
		e = document.getElementById(id);
	}
	if (!e) throw new Error("the page has no " + id);
	const text = e.textContent || "";
	e.remove();
	if (e.getAttribute("type") === "application/json") return {value: JSON.parse(text), array: (name) => name};
	const bytes = await gunzip(decode(text)), at = 4 + new DataView(bytes).getUint32(0, true), decoder = new TextDecoder();
	return {
		value: JSON.parse(decoder.decode(new Uint8Array(bytes, 4, at - 4))),
		array(name) {
			if (typeof name !== "string") return name;
			const [type, offset, n] = name.split(",");
			if (type === "s") return decoder.decode(new Uint8Array(bytes, at + Number(offset), Number(n))).split("\0");
			return new ARRAYS[type](bytes, at + Number(offset), Number(n));
		},
	};
}

/** Reads a recording. What is large of it is read by needMap, needFrames and needEvents. @param {string} id @returns {Promise<Data | null>} */
const load = async (id) => document.getElementById(id) ? (await read(id)).value : null;

/** @param {string} id of the recording @param {RawMap} m */
async function needMap(id, m) {
	if (!m.part) return;
	const {value, array} = await read(id + "-" + m.part);
	m.part = "";
	for (const c of value.columns) for (const f of ["r", "a", "n", "b"]) if (f in c) c[f] = array(c[f]);
	for (const k of value.keys || []) { k.at = array(k.at); k.texts = array(k.texts); }
	if (value.texts) value.texts = array(value.texts);
	if (value.tree) for (const f of ["depth", "frame", "leaf"]) value.tree[f] = array(value.tree[f]);
	if (value.samples) for (const f of ["t", "r", "a"]) if (f in value.samples) value.samples[f] = array(value.samples[f]);
	Object.assign(m, value);
}

/** @param {string} id of the recording @param {Data} d */
async function needFrames(id, d) {
	if (!d.framesPart) return;
	const part = d.framesPart;
	d.framesPart = "";
	d.frames = (await read(id + "-" + part)).value;
}

/** @param {string} id of the recording @param {RawEvents} e */
async function needEvents(id, e) {
	if (!e.part) return;
	const {value, array} = await read(id + "-" + e.part);
	e.part = "";
	for (const f of ["t", "c", "x", "h", "d", "w", "texts"]) value[f] = array(value[f]);
	Object.assign(e, value);
}

/** The state that all views share. */
const state = {
	/** @type {Part} */ range: null,
	/** @type {Card[]} */ cards: [],
	/** @type {Data} */ data: /** @type {any} */ (null),
	/** @type {Data | null} */ base: null,
};

/** @param {Card} c */
function update(c) {
	c.stale = false;
	for (const v of c.views) v.update();
}

/** Whether a card is on the screen. @param {Card} c */
function visible(c) {
	const b = c.root.getBoundingClientRect();
	return b.bottom >= 0 && b.top <= window.innerHeight;
}

/** Does work in pieces, between which the browser does its own. @param {() => boolean} piece returns whether there is more */
function later(piece) {
	document.documentElement.dataset.busy = "true";
	setTimeout(() => { if (piece()) later(piece); else delete document.documentElement.dataset.busy; });
}

/** Shows a part of the run: at once what is on the screen, and then the rest. @param {Part} r */
function select(r) {
	state.range = r;
	const seen = state.cards.filter(visible);
	for (const c of state.cards) c.stale = true;
	for (const c of seen) update(c);
	later(() => {
		const c = state.cards.find((c) => c.stale);
		if (c) update(c);
		return !!c;
	});
}

/** Draws all again, as in another theme. */
function redraw() {
	for (const c of state.cards) for (const v of c.views) v.redraw();
}

/** A time of the run, on the clock of its host. @param {number} ms @param {number} [step] milliseconds that matter */
function clock(ms, step) {
	const d = new Date(state.data.started + ms + state.data.offset * 1000);
	const text = d.toISOString().slice(11, 23);
	return step !== undefined && step >= 1000 ? text.slice(0, 8) : text;
}

/** Stacks that the script printed, each at its time, in cells: a column is an interval, and its rows are parts of it. */
class Samples {
	/** @param {RawSamples} s */
	constructor(s) {
		const n = s.t.length;
		this.at = new Float64Array(n); // milliseconds
		for (let i = 0, t = 0; i < n; i++) this.at[i] = (t += s.t[i]) / 1000;
		this.row = Int32Array.from(s.r);
		this.a = s.a ? floats(s.a) : new Float64Array(n).fill(1);
		this.clock = !!s.clock;
		const first = this.at[0], last = this.at[n - 1];
		this.width = 10; // of a column, in milliseconds: 1, 2 or 5 times a power of ten
		const columns = Math.min(Math.max(n / 25, 8), 100); // about a stack in two cells
		if (last - first >= 8e3 && last - first <= 1e5) this.width = 1000; // as FlameScope has it
		else for (let k = 0; (last - first) / this.width > columns; k++) this.width *= k % 3 === 1 ? 2.5 : 2;
		this.rows = 50;
		this.start = Math.floor(first / this.width) * this.width;
		this.columns = Math.floor((last - this.start) / this.width) + 1;
	}

	/** The index of the first sample that is not before a time. @param {number} ms */
	from(ms) {
		let lo = 0, hi = this.at.length;
		while (lo < hi) { const mid = (lo + hi) >> 1; if (this.at[mid] < ms) lo = mid + 1; else hi = mid; }
		return lo;
	}

	/** The sum of each cell, a column after the other. */
	cells() {
		const out = new Float64Array(this.columns * this.rows), size = this.width / this.rows;
		for (let i = 0; i < this.at.length; i++) out[Math.min(Math.floor((this.at[i] - this.start) / size), out.length - 1)] += this.a[i];
		return out;
	}
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
		const s = this.samples = m.samples && m.samples.t.length ? new Samples(m.samples) : null;
		if (s) {
			m.times = Array.from({length: s.columns}, (_, i) => s.start + (i + 1) * s.width);
			m.interval = s.width;
		}
		/** @type {{row: Int32Array, a: Float64Array, n: Float64Array | null, b: Ints | undefined, exact: Nums}[]} */
		this.columns = m.columns.map((c) => {
			const row = new Int32Array(c.r.length);
			for (let i = 0, at = 0; i < row.length; i++) row[i] = at += c.r[i];
			return {row, a: floats(c.a), n: c.n ? floats(c.n) : null, b: c.b, exact: c.a};
		});
		/** @type {number[]} the beginning of each column */
		this.starts = m.times.map((t, i) => m.interval ? t - m.interval : i ? m.times[i - 1] : Math.min(0, t));
		/** @type {Map<string, Float64Array>} */
		this.cache = new Map();
	}

	/** The first and the last column of a range. @param {Part} [r] @returns {[number, number]} */
	span(r = state.range) {
		const n = this.m.times.length;
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
		if (this.samples && r) return Math.max((r[1] - r[0]) / 1000, 1e-6);
		const [a, b] = this.span(r);
		return b < 0 ? 0 : Math.max((this.m.times[b] - this.starts[a]) / 1000, 1e-6);
	}

	/** The values of rows in a range: of bucket b of row i at i*buckets+b. @param {"a" | "n"} [what] @param {Part} [r] @returns {Float64Array} */
	sums(what = "a", r = state.range) {
		const [first, last] = this.span(r), key = what + (this.samples && r ? r.join("-") : first + "-" + last);
		const known = this.cache.get(key);
		if (known) return known;
		const out = new Float64Array(this.rows * this.buckets), s = this.samples;
		if (s) {
			const end = r ? s.from(r[1]) : s.at.length;
			for (let i = r ? s.from(r[0]) : 0; i < end; i++) out[s.row[i]] += s.a[i];
		} else if (this.m.level) {
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

	/** The key in a sentence: a number says what it is. @param {number} row */
	label(row) {
		const keys = this.m.keys || [];
		return keys.length === 1 && keys[0].numeric ? keys[0].name + " " + this.key(row) : this.key(row);
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
