// SPDX-License-Identifier: Apache-2.0
// Pictures over time: heat maps, lines, and the selection of a part of the run.

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

/** Milliseconds between the ticks of an axis. */
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5];

/** A canvas that is drawn again when its size changes. @param {string} label @param {(ctx: CanvasRenderingContext2D, width: number, height: number) => number} draw returns the height that it needs
 * @param {boolean} [grows] it never becomes lower: a new size is a new picture, which takes time */
function canvas(label, draw, grows) {
	const c = el("canvas", {role: "img", tabindex: "0", "aria-label": label});
	let width = 0, height = 0;
	const redraw = () => {
		if (!width) width = c.clientWidth;
		if (!width) return;
		const scale = window.devicePixelRatio || 1;
		/** @param {number} h */
		const size = (h) => {
			height = h = grows ? Math.max(height, h) : h;
			const ctx = c.getContext("2d", {willReadFrequently: true}), w = Math.round(width * scale), rows = Math.round(h * scale);
			if (c.width === w && c.height === rows && c.style.height === h + "px") return ctx;
			c.width = w;
			c.height = rows;
			c.style.height = h + "px";
			ctx.setTransform(scale, 0, 0, scale, 0, 0);
			ctx.font = "11.5px " + css("--mono");
			ctx.textBaseline = "middle";
			return ctx;
		};
		const needed = draw(size(height || 10), width, height);
		if (grows ? needed > height : needed !== height) draw(size(needed), width, needed);
	};
	new ResizeObserver(() => { if (c.clientWidth && c.clientWidth !== width) { width = c.clientWidth; redraw(); } }).observe(c);
	return {canvas: c, redraw};
}

/** A picture over time, from which a range is selected with the pointer or the arrow keys.
 * @param {string} label @param {Table | {starts: number[], m: {times: number[]}}} t
 * @param {{left: number, rows?: number, height(): number, draw(ctx: CanvasRenderingContext2D, x: (c: number) => number, width: number, height: number): void, tell(c: number, y: number): string}} o rows: a column is of as many cells, of equal parts of its time from the bottom to the top */
function timePicture(label, t, o) {
	const times = t.m.times, n = times.length, axis = 20, rows = o.rows || 1, cells = n * rows;
	const status = el("p", {class: "status", role: "status"});
	const hint = rows > 1 ? "Drag from the first to the last cell of a part of the run." : "Drag to select a part of the run.";
	status.textContent = hint;
	let cursor = -1, anchor = -1, width = 1;
	const start = t.starts[0], end = times[n - 1];
	const toX = (/** @type {number} */ ms) => o.left + (ms - start) / Math.max(end - start, 1e-9) * (width - o.left);
	const x = (/** @type {number} */ c) => toX(c < n ? t.starts[c] : end);
	/** When a cell begins, and when it ends. @param {number} i */
	const from = (i) => rows === 1 ? t.starts[i] : start + i * (times[0] - start) / rows;
	const until = (/** @type {number} */ i) => rows === 1 ? times[i] : from(i + 1);
	const at = (/** @type {number} */ px, /** @type {number} */ py) => {
		const ms = start + (px - o.left) / (width - o.left) * (end - start);
		let lo = 0, hi = n - 1;
		while (lo < hi) { const mid = (lo + hi) >> 1; if (times[mid] < ms) lo = mid + 1; else hi = mid; }
		return rows === 1 ? lo : lo * rows + Math.min(Math.max(Math.floor((1 - py / o.height()) * rows), 0), rows - 1);
	};
	const c = canvas(label + ". " + hint + " With the keyboard: arrow keys move, with Shift they select, Escape shows all.", (ctx, w) => {
		width = w;
		const height = o.height();
		ctx.clearRect(0, 0, w, height + axis);
		o.draw(ctx, x, w, height);
		ctx.fillStyle = css("--dim");
		const step = STEPS.find((s) => s / (end - start || 1) * (w - o.left) >= (s >= 1000 ? 64 : 92)) || 864e5;
		const zero = state.data.started + state.data.offset * 1000; // ticks are at whole seconds, or parts of them, of the clock
		const half = (step >= 1000 ? 8 : 12) * 3.5;
		let free = 0;
		ctx.textAlign = "center";
		for (let ms = Math.ceil((zero + start) / step) * step - zero; ms <= end; ms += step) {
			const px = toX(ms), at = Math.min(px, w - half);
			ctx.fillRect(Math.min(px, w - 1), height, 1, 3);
			if (at - half < free) continue;
			ctx.fillText(clock(ms + .01, step), at, height + 11);
			free = at + half + 8;
		}
		const r = state.range;
		if (r || anchor >= 0 && dragging) {
			const [a, b] = dragging && anchor >= 0 ? [from(Math.min(anchor, cursor)), until(Math.max(anchor, cursor))] : /** @type {[number, number]} */ (r);
			const x0 = Math.max(toX(a), o.left), x1 = Math.min(toX(b), w);
			ctx.fillStyle = dark() ? "rgba(0,0,0,.55)" : "rgba(255,255,255,.62)";
			ctx.strokeStyle = css("--accent");
			ctx.lineWidth = 2;
			if (rows > 1) {
				outlineCells(ctx, (a - start) / (times[0] - start), (b - start) / (times[0] - start), x, w, height);
			} else {
				ctx.fillRect(o.left, 0, Math.max(x0 - o.left, 0), height);
				ctx.fillRect(x1, 0, Math.max(w - x1, 0), height);
				ctx.strokeRect(x0, 1, Math.max(x1 - x0, 1), height - 2);
			}
		} else if (cursor >= 0) {
			ctx.strokeStyle = css("--text");
			ctx.lineWidth = 1;
			const k = Math.floor(cursor / rows), h = height / rows;
			ctx.strokeRect(x(k) + .5, (rows - 1 - cursor % rows) * h + .5, Math.max(x(k + 1) - x(k) - 1, 1), h - 1);
		}
		return height + axis;
	});
	/** Marks the time from a to b, in columns, which may begin and end in the midst of one. @param {CanvasRenderingContext2D} ctx @param {number} a @param {number} b
	 * @param {(c: number) => number} x @param {number} w @param {number} height */
	const outlineCells = (ctx, a, b, x, w, height) => {
		a = Math.min(Math.max(a, 0), n);
		b = Math.min(Math.max(b, a), n);
		const c0 = Math.floor(a + 1e-6), c1 = Math.min(Math.floor(b - 1e-6), n - 1), top = (1 - (b - c1)) * height, bottom = (1 - (a - c0)) * height;
		ctx.fillRect(o.left, 0, x(c0) - o.left, height);
		ctx.fillRect(x(c1 + 1), 0, w - x(c1 + 1), height);
		ctx.fillRect(x(c0), bottom, x(c0 + 1) - x(c0), height - bottom);
		ctx.fillRect(x(c1), 0, x(c1 + 1) - x(c1), top);
		ctx.beginPath();
		if (c0 === c1) ctx.rect(x(c0), top, x(c0 + 1) - x(c0), bottom - top);
		else for (const [px, py] of [[x(c0), bottom], [x(c0), 1], [x(c1), 1], [x(c1), top], [x(c1 + 1), top], [x(c1 + 1), height - 1], [x(c0 + 1), height - 1], [x(c0 + 1), bottom]]) ctx.lineTo(px, py);
		ctx.closePath();
		ctx.stroke();
	};
	let dragging = false;
	const tell = (/** @type {number} */ y) => { status.textContent = cursor < 0 ? hint : clock(from(cursor)) + " – " + clock(until(cursor)) + "  " + o.tell(cursor, y); };
	const choose = () => select([from(Math.min(anchor, cursor)), until(Math.max(anchor, cursor))]);
	/** @param {PointerEvent} e */
	const point = (e) => { const box = c.canvas.getBoundingClientRect(); cursor = at(e.clientX - box.left, e.clientY - box.top); tell(e.clientY - box.top); };
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
		const step = /** @type {Object<string, number>} */ ({ArrowLeft: -rows, ArrowRight: rows, ArrowUp: rows > 1 ? 1 : 0, ArrowDown: rows > 1 ? -1 : 0})[e.key] || 0;
		if (step) {
			if (e.shiftKey && anchor < 0) anchor = Math.max(cursor, 0);
			cursor = Math.min(Math.max(cursor + step, 0), cells - 1);
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

/** A heat map of stacks that the script printed: columns are intervals, and rows the time within each, as in FlameScope. @param {string} label @param {Table} t @param {Samples} s @param {(v: number) => string} show */
function subsecondMap(label, t, s, show) {
	const values = s.cells(), rows = s.rows, row = 5, left = 124;
	let most = 0;
	for (const v of values) if (v > most) most = v;
	const picture = timePicture(label, t, {
		left, rows, height: () => rows * row,
		draw(ctx, x, w, height) {
			ctx.fillStyle = heat(0);
			ctx.fillRect(left, 0, w - left, height);
			for (let i = 0; i < values.length; i++) {
				if (!values[i]) continue;
				const c = Math.floor(i / rows), x0 = x(c), x1 = x(c + 1);
				ctx.fillStyle = heat(0.12 + 0.88 * Math.sqrt(values[i] / most));
				ctx.fillRect(x0, (rows - 1 - i % rows) * row, Math.max(x1 - x0 - (x1 - x0 > 6 ? 1 : 0), 1), row - 1);
			}
			ctx.textAlign = "right";
			ctx.fillStyle = css("--dim");
			for (let k = 0; k <= 5; k++) ctx.fillText(k ? "+" + duration(s.width * 1e6 * k / 5) : "+0", left - 7, Math.min(Math.max(height * (1 - k / 5), 6), height - 6));
		},
		tell: (c) => show(values[c]),
	});
	const table = lazyTable("Values of this heat map as a table", () => ({
		head: ["until", "all", ...Array.from({length: 5}, (_, k) => "from +" + duration(s.width * 1e6 * k / 5))],
		rows: t.m.times.map((end, c) => [clock(end), ...[[0, 5], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5]].map(([a, b]) => show(values.subarray(c * rows + a * rows / 5, c * rows + b * rows / 5).reduce((x, y) => x + y, 0)))]),
	}));
	return {root: el("div", {class: "heat", "data-rows": rows, "data-columns": s.columns}, picture.root, table.root), redraw: picture.redraw};
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
