// SPDX-License-Identifier: Apache-2.0
// Flame graphs and icicles.

/** @type {Object<string, [number, number, number][]>} hue, saturation, lightness: light and dark */
const KINDS = {u: [[40, 95, 68], [36, 60, 44]], k: [[16, 90, 70], [12, 52, 44]], l: [[208, 60, 76], [210, 36, 38]], i: [[125, 50, 74], [135, 30, 38]]};

/** A color as a pixel of a canvas: its bytes are red, green, blue and alpha. @param {number} h degrees @param {number} s percent @param {number} l percent */
function hsl(h, s, l) {
	s /= 100;
	l /= 100;
	const a = s * Math.min(l, 1 - l);
	const f = (/** @type {number} */ n) => { const k = (n + h / 30) % 12; return Math.round(255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1)))); };
	return (0xff000000 | f(4) << 16 | f(8) << 8 | f(0)) >>> 0;
}

/** A tree of stacks, in preorder, that two recordings may share. */
class Tree {
	/** @param {{name: string, kind: string}[]} frames @param {Ints} depth @param {Ints} frame */
	constructor(frames, depth, frame) {
		const n = depth.length;
		this.n = n;
		this.frames = frames;
		this.depth = Int32Array.from(depth);
		this.frame = Int32Array.from(frame);
		this.parent = new Int32Array(n);
		this.end = new Int32Array(n); // after the last node below it
		const open = /** @type {number[]} */ ([]);
		let top = 0;
		for (let i = 0; i < n; i++) {
			const d = this.depth[i];
			while (top > d) this.end[open[--top]] = i;
			this.parent[i] = top ? open[top - 1] : -1;
			open[top++] = i;
		}
		while (top) this.end[open[--top]] = n;
	}

	/** The sum at each node of the values of rows. @param {Ints} leaf @param {Float64Array} values */
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
	return {tree, leafA: Int32Array.from(x.leaf, (i) => i < 0 ? -1 : ofA[i].at), leafB: Int32Array.from(y.leaf, (i) => i < 0 ? -1 : ofB[i].at)};
}

/** @typedef {{zoom(path: number[]): void, search(text: string): void}} Linked */

/** @param {Table} t @param {{data: Data, table: Table} | null} base @param {(v: number) => string} show
 * @param {{keep(row: number): boolean, name: string, linked: Linked[]}} [only] a part of the rows, beside others that zoom and search with it */
function flame(t, base, show, only) {
	const raw = /** @type {RawTree} */ (t.m.tree);
	let tree = new Tree(state.data.frames || [], raw.depth, raw.frame), leaf = raw.leaf, leafBase = /** @type {Ints} */ ([]);
	if (base && base.table.m.tree) {
		const u = union(state.data, raw, base.data, base.table.m.tree);
		tree = u.tree; leaf = u.leafA; leafBase = u.leafB;
	}
	const ROW = 18, label = t.m.name + (only ? " of " + only.name : "");
	/** @type {Float64Array} */
	let totals = new Float64Array(0);
	let baseTotals = /** @type {Float64Array | null} */ (null), icicle = true, zoom = -1, hover = -2, current = -1;
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

	/** @type {Uint32Array} of frames, in the theme that is shown; 0: not yet known */
	let colors = new Uint32Array(0);
	let colorsOf = "", mark = 0;
	/** Frames of CPUs that are idle, and whether there are any. */
	const idle = Uint8Array.from(tree.frames, (f) => (f.kind === "k" ? f.name === "do_idle" || f.name === "cpu_startup_entry" : f.kind === "l" && /^swapper\/\d+$/.test(f.name)) ? 1 : 0), anyIdle = idle.includes(1);
	/** @param {number} i */
	const isIdle = (i) => idle[tree.frame[i]] === 1;
	/** The color of a node, as a pixel. @param {number} i */
	const color = (i) => {
		if (hits && i >= 0 && hits[tree.frame[i]]) return mark;
		if (i < 0) return dark() ? 0xff5c5048 : 0xffe0d9d4;
		if (baseTotals) {
			const c = Math.max(Math.min(change(i) / 0.1, 1), -1), s = Math.sqrt(Math.abs(c)), l = dark() ? 32 + 16 * s : 92 - 30 * s;
			return hsl(c > 0 ? 6 : 214, 8 + 78 * s, l);
		}
		const f = tree.frame[i];
		if (colors[f]) return colors[f];
		const [h, s, l] = (KINDS[tree.frames[f].kind] || KINDS.u)[dark() ? 1 : 0];
		let hash = 0;
		for (const c of tree.frames[f].name) hash = (hash * 31 + c.charCodeAt(0)) | 0;
		return colors[f] = hsl(h + (hash & 7) - 4, s, l + ((hash >> 3) & 7) - 4);
	};
	const themed = () => {
		const theme = document.documentElement.dataset.theme || "";
		if (theme === colorsOf) return;
		colorsOf = theme;
		colors = new Uint32Array(tree.frames.length);
		const m = parseInt(css("--mark").slice(1), 16);
		mark = (0xff000000 | (m & 0xff) << 16 | m & 0xff00 | m >> 16) >>> 0;
	};

	const outlined = el("i", {class: "outline", hidden: true});
	const c = canvas("Flame graph of " + label + ". Arrow keys move between the boxes, Enter zooms, Escape shows all; the table below has the functions.", (ctx, w, h) => {
		if (w !== width || stale) { width = w; layout(); stale = false; }
		const height = levels * ROW;
		if (h < height) return height; // it is drawn when it has its height
		over.style.height = height + "px";
		themed();
		paint(ctx);
		const strong = dark() ? "#fff" : "#1c2430";
		for (const b of boxes) {
			if (b.w <= 26) continue;
			ctx.fillStyle = hits && b.i >= 0 && hits[tree.frame[b.i]] ? dark() ? "#111" : "#fff" : strong;
			ctx.fillText(cut(name(b.i), Math.floor((b.w - 6) / 6.95)), b.x + 3, (icicle ? b.d : levels - 1 - b.d) * ROW + ROW / 2);
		}
		c.canvas.dataset.boxes = String(boxes.length);
		c.canvas.dataset.zoom = name(zoom);
		outline();
		return height;
	}, true);
	const over = el("div", {class: "over"}, c.canvas, outlined);
	/** Draws the boxes: one line of pixels for each level, which is then repeated. Filling rectangles takes ten times as long.
	 * @param {CanvasRenderingContext2D} ctx */
	const paint = (ctx) => {
		const w = c.canvas.width, scale = w / width, h = Math.min(Math.ceil(levels * ROW * scale), c.canvas.height), image = ctx.createImageData(w, h), pixels = new Uint32Array(image.data.buffer);
		const lines = new Uint32Array(w * levels), faded = zoom < 0 ? 0 : tree.depth[zoom] + 1;
		for (const b of boxes) {
			const x0 = Math.round(b.x * scale), x1 = Math.max(Math.round((b.x + b.w) * scale), x0 + 1), line = b.d * w;
			let v = color(b.i);
			if (b.d < faded) v = (v & 0xffffff | 0x8c000000) >>> 0;
			lines.fill(v, line + x0, line + Math.min(x1 - x0 > 3 ? x1 - 1 : x1, w));
		}
		for (let d = 0; d < levels; d++) {
			const line = lines.subarray(d * w, (d + 1) * w), y = (icicle ? d : levels - 1 - d) * ROW;
			const y0 = Math.round(y * scale), y1 = Math.min(Math.round((y + ROW) * scale) - 1, h);
			for (let k = y0; k < y1; k++) pixels.set(line, k * w);
		}
		ctx.putImageData(image, 0, 0);
	};
	let stale = true;
	const redrawAll = () => { stale = true; c.redraw(); };
	/** Places the outline of the box below the pointer, or of the current one. */
	const outline = () => {
		const i = hover !== -2 ? hover : document.activeElement === c.canvas ? current : -2, b = i === -2 ? null : boxes.find((b) => b.i === i);
		outlined.hidden = !b;
		if (!b) return;
		Object.assign(outlined.style, {left: b.x + "px", top: (icicle ? b.d : levels - 1 - b.d) * ROW + "px", width: Math.max(b.w - 1, 2) + "px", height: ROW - 1 + "px"});
	};
	const point = outline;

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
			if (!(w >= .5)) { i = tree.end[i]; continue; }
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
	const zoomTo = (/** @type {number} */ i, /** @type {boolean} */ alone = false) => {
		zoom = current = i;
		reset.hidden = zoom < 0;
		tell(-2);
		redrawAll();
		if (!only || alone) return;
		const path = [];
		for (let k = i; k >= 0 && tree.depth[k] > 0; k = tree.parent[k]) path.unshift(tree.frame[k]);
		for (const o of only.linked) if (o !== mine) o.zoom(path);
	};
	/** @type {Linked} */
	const mine = {
		zoom(path) { // as far as this part has it; its first level is its own
			let node = -1, first = 0;
			while (first < tree.n && !totals[first]) first = tree.end[first];
			if (path.length && first < tree.n) node = first;
			for (const f of path) {
				let k = node + 1;
				while (k < tree.end[node] && (tree.frame[k] !== f || !totals[k])) k = tree.end[k];
				if (node < 0 || k >= tree.end[node]) break;
				node = k;
			}
			zoomTo(node, true);
		},
		search(text) { box.value = text; find(text); },
	};
	if (only) only.linked.push(mine);
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
	/** @type {Float64Array} */
	let self = new Float64Array(0);
	let total = new Float64Array(0), baseTotal = /** @type {Float64Array | null} */ (null);
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
	const own = () => self.length ? self : self = ofItsOwn(totals);
	const fill = () => {
		if (!details.open) return;
		own();
		total = ofAll(totals);
		if (baseTotals) baseTotal = ofAll(baseTotals);
		list.arrange();
	};
	details.addEventListener("toggle", fill);

	const update = () => {
		let v = t.counted ? t.sums("a") : t.values();
		if (only) v = v.map((x, r) => only.keep(r) ? x : 0);
		totals = tree.totals(leaf, v);
		baseTotals = base ? tree.totals(leafBase, base.table.counted ? base.table.sums("a", null) : base.table.values(null)) : null;
		self = new Float64Array(0);
		if (zoom >= 0 && !totals[zoom]) zoom = -1;
		stale = true;
		tell(-2);
		fill();
		find(box.value);
	};
	const box = searchBox("Search functions", (text) => { find(text); if (only) for (const o of only.linked) if (o !== mine) o.search(text); });
	const picture = el("div", {class: "picture", tabindex: "-1"}, over);
	const root = el("div", {class: "flame"},
		el("div", {class: "tools"}, box, matched, toggle("Root at the bottom", () => !icicle, (on) => { icicle = !on; requestAnimationFrame(() => { picture.scrollTop = icicle ? 0 : picture.scrollHeight; }); }), base ? toggle("Widths of the base", () => byBase, (on) => { byBase = on; }) : null, reset),
		status, picture, details);
	return {
		root, update, redraw: redrawAll,
		/** The value of CPUs that were idle: of the processes swapper/N, or in the kernel's idle loop. */
		idle() {
			let sum = 0;
			for (let i = 0; anyIdle && i < tree.n;) {
				if (isIdle(i)) { sum += totals[i]; i = tree.end[i]; } else i++;
			}
			return sum;
		},
		/** The function with the largest value of its own, of what is not idle; if nearly all stacks end in it, that of user space which
		 * called the kernel most, or else, of the kernel's, the one closest to the root that not nearly all have.
		 * @returns {{name: string, share: number, how: string} | null} */
		top() {
			const best = (/** @type {Float64Array} */ v) => {
				let f = -1;
				for (let i = 0; i < v.length; i++) if (tree.frames[i].kind !== "l" && (f < 0 || v[i] > v[f])) f = i;
				return f;
			};
			const busy = own().slice(), all = totals[ALL];
			for (let i = 0; anyIdle && i < tree.n; i = isIdle(i) ? tree.end[i] : i + 1) {
				if (isIdle(i)) for (let k = i; k < tree.end[i]; k++) {
					busy[tree.frame[k]] -= totals[k];
					if (k > i) busy[tree.frame[tree.parent[k]]] += totals[k];
				}
			}
			const f = best(busy);
			if (f < 0 || !all || !(busy[f] > 0)) return null;
			if (busy[f] < .9 * all) return {name: tree.frames[f].name, share: busy[f] / all, how: "Top function: "};
			const user = new Float64Array(tree.frames.length), {frame, parent} = tree;
			for (let i = 0; i < tree.n; i++) {
				const up = parent[i];
				if (tree.frames[frame[i]].kind === "k") {
					if (up >= 0 && tree.frames[frame[up]].kind !== "k") user[frame[up]] += totals[i];
				}
			}
			const u = best(user);
			if (u >= 0 && user[u]) return {name: tree.frames[u].name, share: user[u] / all, how: "Most is in calls of the kernel by "};
			if (tree.frames[f].kind !== "k") return {name: tree.frames[f].name, share: busy[f] / all, how: "Top function: "};
			const part = ofAll(totals).map((x) => x < .9 * all ? x : 0);
			let through = -1; // the first of equals in preorder is the closest to the root
			for (let i = 0; i < tree.n; i++) if (tree.frames[tree.frame[i]].kind !== "l" && part[tree.frame[i]] > (through < 0 ? 0 : part[through])) through = tree.frame[i];
			return through >= 0 ? {name: tree.frames[through].name, share: part[through] / all, how: "Most is in "} : {name: tree.frames[f].name, share: self[f] / all, how: "Top function: "};
		},
		total: () => totals[ALL],
	};
}
