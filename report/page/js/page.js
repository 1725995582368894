// SPDX-License-Identifier: Apache-2.0
// The page: its head, what was lost, the script, the cards, and following a run that goes on. It shows data that anybody may
// have chosen: only as text (textContent, fillText), never as HTML.

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
	return el("header", {class: "top"}, el("div", {class: "row"}, el("div", {}, el("h1", {class: title === d.script.source.trim() ? "long" : ""}, title), about.length ? el("p", {class: "about"}, about.slice(0, 6).join(" ")) : null), themeButton(redraw)), facts, health(d));
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
	const short_ = cuts.reduce((n, l) => n + num(l.n), 0);
	if (cuts.length) add("warning", count(short_) + (short_ === 1 ? " user stack is" : " user stacks are") + " cut short: " + cuts.map((l) => l.cause.slice(6) + " " + count(num(l.n))).join(", "));
	for (const m of d.maps) if (m.cut) {
		const cut = num(m.cut.depth) + num(m.cut.unwind) + num(m.cut.lost);
		add("warning", percent(cut / num(m.cut.of)) + " of the " + (m.events ? "" : "stacks of ") + m.name + " are cut short");
	}
	if (d.part) add("warning", "Only a part of the run: " + d.part);
	else if (!d.ended) {
		if (document.documentElement.dataset.live) list.append(el("li", {class: "ok", id: "live"}, "The run goes on"));
		else add("warning", "The recording ends before the run does");
	}
	const errors = (d.messages || []).filter((m) => m.error).length, all = (d.messages || []).filter((m) => !cuts.length || !/ user stacks are cut short/.test(m.text)).length;
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
		for (let i = from; i <= to && i <= lines.length; i++) p.append(el("span", {class: "ln"}, el("span", {class: "no", "aria-hidden": "true"}, String(i)), lines[i - 1].replace(/\t/g, "    ") + "\n"));
		return p;
	};
	let at = 1;
	clauses.forEach((c, i) => {
		if (c.line > at) code.append(el("div", {class: "clause"}, pre(at, c.line - 1)));
		const from = Math.max(c.line, at);
		const shown = (c.maps || []).filter((name) => d.maps.some((m) => m.name === name && m.cells && !m.scratch));
		const makes = el("div", {class: "makes"}), n = (c.calls || []).reduce((k, j) => k + (d.events ? d.events.counts[j] : 0), 0);
		for (const name of shown) {
			const m = /** @type {RawMap} */ (d.maps.find((x) => x.name === name));
			makes.append(el("a", {href: "#map-" + name.replace(/[^A-Za-z0-9_]/g, "")}, "→ " + name + " (" + (m.events ? count(m.cells) + (m.cells === 1 ? " stack" : " stacks") : m.scalar ? m.shape : count(m.rows) + (m.rows === 1 ? " key" : " keys")) + ")"));
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

/** The cards of a recording, in their order. @param {Data} d */
function cardsOf(d) {
	/** @type {{order: number, maps: RawMap[], events?: RawEvents, make: (tables: Table[]) => Card}[]} */
	const cards = [];
	/** @type {RawMap[]} */
	const tiles = [];
	/** @type {RawMap[]} */
	const scratch = [];
	for (const m of d.maps) {
		if (!m.cells) continue;
		const unit = unitOf(m), show = (/** @type {number} */ v) => amount(v, unit), maps = [m];
		const samples = (/** @type {number} */ v) => m.shape === "count" && m.tree ? count(v) + (m.events ? v === 1 ? " event" : " events" : v === 1 ? " sample" : " samples") : show(v);
		if (m.scratch) scratch.push(m);
		else if (m.tree && m.shape !== "min" && m.shape !== "max" && !m.texts) cards.push({order: 0, maps, make: ([t]) => flameCard(t, samples)});
		else if (m.shape === "hist" || m.shape === "lhist") cards.push({order: (m.scalar || m.host && (m.keys || []).length === 1 ? 1 : 2) - (unit ? .5 : 0), maps, make: ([t]) => histogramCard(t)});
		else if (m.scalar && (m.times.length < 2 || m.texts)) tiles.push(m);
		else cards.push({order: m.scalar ? 4 : m.level ? 5 : 3, maps, make: ([t]) => tableCard(t, show)});
	}
	if (tiles.length) cards.push({order: 3.5, maps: tiles, make: tilesCard});
	const e = d.events;
	if (e) {
		const n = e.counts.reduce((a, b) => a + b, 0);
		cards.push({order: n > 20 ? 2.5 : n > 3 ? 4.5 : 7, maps: [], events: e, make: () => eventsCard(e)});
	}
	cards.sort((a, b) => a.order - b.order);
	if (scratch.length) cards.push({order: 9, maps: scratch, make: scratchCard});
	return cards;
}

/** The maps that a script uses for itself. @param {Table[]} tables @returns {Card} */
function scratchCard(tables) {
	const inner = el("div", {}), root = el("details", {class: "card"}, el("summary", {}, "State of the script: " + tables.map((t) => t.m.name).join(", ")), inner);
	/** @type {Card} */
	const card = {root, views: []};
	root.addEventListener("toggle", () => {
		if (inner.firstChild) return;
		for (const t of tables) {
			const made = tableCard(t, (v) => amount(v, t.unit));
			card.views.push(...made.views);
			inner.append(made.root);
		}
		update(card);
	});
	return card;
}

/** Resolves when the browser has painted, or has done other work if it does not paint, as when the page is hidden. */
const painted = () => new Promise((done) => {
	requestAnimationFrame(() => setTimeout(done));
	setTimeout(done, document.hidden ? 0 : 100);
});

/** Shows a recording: first what is on the screen, then the rest. With together, all of it at once, in place of another.
 * @param {Data} d @param {boolean} together */
async function build(d, together) {
	/** @type {Card[]} */
	const made = [];
	const text = el("span", {role: "status"}), range = el("div", {class: "range", hidden: true}, text, el("button", {onclick: () => select(null)}, "Show all"));
	made.push({root: range, views: [{update() {
		const r = state.range;
		range.hidden = !r;
		if (r) text.textContent = "Showing " + clock(r[0]) + " – " + clock(r[1]) + ": " + duration((r[1] - r[0]) * 1e6) + " of " + duration(d.duration * 1e6);
	}, redraw() {}}]});
	const main = el("main", {id: "results", tabindex: "-1", "aria-label": "Results"}), cards = cardsOf(d);
	if (!cards.length) main.append(el("section", {class: "card"}, el("p", {class: "answer"}, "The run reported nothing" + (d.part ? " in this part" : "") + ": it printed no line, and none of its maps has an element.")));
	const show = () => {
		/** @type {HTMLElement} */ (document.getElementById("app")).replaceChildren(header(d), range, el("div", {class: "layout"}, main, scriptCard(d)));
		state.cards = made;
	};
	if (!together) show();
	let ready = false;
	const filled = async () => {
		await painted();
		document.documentElement.dataset.ready = String(Math.round(performance.now()));
		ready = true;
	};
	for (const c of cards) {
		for (const m of c.maps) {
			await needMap("data", m);
			if (m.tree) await needFrames("data", d);
			const b = ofBase(m);
			if (b) await needMap("base", b);
			if (b && b.tree && state.base) await needFrames("base", state.base);
		}
		if (c.events) await needEvents("data", c.events);
		const card = c.make(c.maps.map((m) => new Table(m)));
		made.push(card);
		main.append(card.root);
		if (together) continue;
		update(card);
		if (!ready) {
			await painted(); // canvases have their height then
			document.documentElement.dataset.first ||= String(Math.round(performance.now()));
			if (card.root.getBoundingClientRect().bottom > window.innerHeight) await filled();
		} else await new Promise((done) => setTimeout(done));
	}
	if (together) {
		show();
		for (const c of made) update(c);
	} else if (!ready) await filled();
	document.documentElement.dataset.complete = String(Math.round(performance.now()));
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
			await build(d, true);
			window.scrollTo(0, y);
			document.documentElement.dataset.updates = String(Number(document.documentElement.dataset.updates || 0) + 1);
			if (d.ended) return;
		} catch {
			if (note) note.textContent = "btc report does not answer any more";
			return;
		}
	}
}

followTheme(redraw);
document.addEventListener("keydown", (ev) => { if (ev.key === "Escape" && state.range && !(ev.target instanceof HTMLCanvasElement)) select(null); });
let before = "";
window.addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme || "light"; document.documentElement.dataset.theme = "light"; for (const c of state.cards) if (c.stale) update(c); redraw(); });
window.addEventListener("afterprint", () => { document.documentElement.dataset.theme = before; redraw(); });

(async () => {
	try {
		const d = await load("data");
		if (!d) throw new Error("the page has no data");
		state.data = d;
		state.base = await load("base");
		await build(d, false);
		const live = document.documentElement.dataset.live;
		if (live) follow(live);
	} catch (e) {
		/** @type {HTMLElement} */ (document.getElementById("app")).replaceChildren(el("p", {class: "fatal", role: "alert"}, "This page cannot be shown: " + (e instanceof Error ? e.message : String(e))));
		throw e;
	}
})();
