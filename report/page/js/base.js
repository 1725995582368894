// SPDX-License-Identifier: Apache-2.0
// Small functions that all of the page uses: numbers, units, patterns.

/**
 * @typedef {number | string} Num an integer; a string if a number cannot represent it
 * @typedef {number[] | Uint8Array | Int8Array | Uint16Array | Int16Array | Uint32Array | Int32Array | Float64Array} Ints
 * @typedef {Ints | Num[]} Nums
 * @typedef {{name: string, numeric?: boolean, texts: string[], at: Ints}} Key
 * @typedef {{r: Ints, a: Nums, n?: Nums, b?: Ints}} RawColumn
 * @typedef {{depth: Ints, frame: Ints, leaf: Ints}} RawTree
 * @typedef {{t: Ints, r: Ints, a?: Nums, clock?: boolean, omitted?: number}} RawSamples
 * @typedef {{name: string, shape: string, part?: string, cells: number, unit?: string, help?: string, line?: number, scalar?: boolean, host?: boolean, scratch?: boolean,
 *   level?: boolean, interval?: number, joined?: number, keys?: Key[], rows: number, texts?: string[], bounds?: (number | null)[][], decimal?: boolean,
 *   times: number[], columns: RawColumn[], tree?: RawTree, events?: boolean, samples?: RawSamples, omitted?: {rows: number, value: Num}, cut?: {depth: Num, unwind: Num, lost: Num, of: Num}}} RawMap
 * @typedef {{calls: {kind: string, line: number}[], counts: number[], part?: string, texts: string[], hosts?: string[], t: Ints, c: Ints, x: Ints, h?: Ints, d?: Nums, names?: string[], w?: Ints, omitted?: number}} RawEvents
 * @typedef {{line: number, end: number, probes: string[], maps?: string[], calls?: number[]}} Clause
 * @typedef {{file: string, script: {file: string, source: string, clauses?: Clause[]}, host?: string, kernel?: string, arch?: string, object?: string,
 *   compiler?: string, params?: {name: string, value: string}[], hosts?: string[], merged?: boolean, byHost?: boolean, attached?: number, started: number,
 *   offset: number, zone?: string, duration: number, ended: boolean, part?: string, losses?: {cause: string, n: Num}[], coverage?: string[],
 *   messages?: {at: number, text: string, error?: boolean, line?: number}[], maps: RawMap[], events?: RawEvents, frames?: {name: string, kind: string}[], framesPart?: string}} Data
 * @typedef {[number, number] | null} Part a part of the run, in milliseconds
 * @typedef {{update(): void, redraw(): void}} View
 * @typedef {{root: HTMLElement, views: View[], stale?: boolean}} Card
 */

/** @param {Num | undefined} n */
const num = (n) => typeof n === "string" ? Number(n) : n || 0;

/** Numbers as floating point. @param {Nums} all */
const floats = (all) => Array.isArray(all) ? Float64Array.from(all, num) : new Float64Array(all);

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

/** A share that is 100% only if it is all. @param {number} share */
const upTo = (share) => share >= .995 && share < 1 ? Math.min(Math.floor(share * 1e4) / 100, 99.99) + "%" : percent(share);

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

/** Boxes take text or a regular expression. @param {string} label @param {(value: string) => void} then */
function searchBox(label, then) {
	const box = el("input", {type: "search", placeholder: label, title: "text or a regular expression", "aria-label": label + " (text or regular expression)", spellcheck: "false"});
	box.addEventListener("input", () => then(box.value));
	return box;
}
