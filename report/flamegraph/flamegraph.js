"use strict";
(function () {
	var svg = document.documentElement;
	if (svg.tagName.toLowerCase() !== "svg") svg = document.currentScript.ownerSVGElement;
	function byId(id) { return svg.querySelector("#" + id); }
	var margin = 10, inner = svg.viewBox.baseVal.width - 2 * margin, glyph = 7.2;
	var details = byId("details"), reset = byId("reset"), matched = byId("matched");
	var boxes = Array.prototype.map.call(byId("boxes").children, function (g) {
		var rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
		return {
			g: g, rect: rect, text: g.querySelector("text"), title: title, name: title.replace(/ \([^(]*\)$/, ""),
			x: +rect.getAttribute("x"), w: +rect.getAttribute("width"), y: +rect.getAttribute("y")
		};
	});
	// The browser would show the titles as tooltips, too.
	boxes.forEach(function (b) { b.g.box = b; b.g.removeChild(b.g.querySelector("title")); b.g.setAttribute("aria-label", b.title); });

	function label(b, x, w) {
		var n = Math.floor((w - 6) / glyph), chars = Array.from(b.name), show = "";
		if (chars.length <= n) show = b.name;
		else if (n >= 3) show = chars.slice(0, n - 2).join("") + "..";
		if (!b.text) {
			if (!show) return;
			b.text = document.createElementNS("http://www.w3.org/2000/svg", "text");
			b.text.setAttribute("y", b.y + 12);
			b.g.appendChild(b.text);
		}
		b.text.setAttribute("x", x + 3);
		b.text.textContent = show;
	}

	function zoom(f) {
		var scale = inner / f.w, slack = 0.02;
		boxes.forEach(function (b) {
			var inside = b.y <= f.y && b.x >= f.x - slack && b.x + b.w <= f.x + f.w + slack;
			var below = b.y > f.y && b.x <= f.x + slack && b.x + b.w >= f.x + f.w - slack;
			b.g.classList.toggle("off", !inside && !below);
			b.g.classList.toggle("faded", below);
			if (!inside && !below) return;
			var x = below ? margin : margin + (b.x - f.x) * scale, w = below ? inner : b.w * scale;
			b.rect.setAttribute("x", x);
			b.rect.setAttribute("width", w);
			label(b, x, w);
		});
		reset.classList.toggle("on", f !== boxes[0]);
	}

	function search(text) {
		var test = null;
		if (text) {
			try { var re = new RegExp(text); test = function (name) { return re.test(name); }; }
			catch (e) { test = function (name) { return name.indexOf(text) >= 0; }; }
		}
		// Boxes within a match are not counted again: children follow their parents.
		var sum = 0, end = -1;
		boxes.forEach(function (b, i) {
			var hit = !!test && i > 0 && test(b.name);
			b.g.classList.toggle("hit", hit);
			if (hit && b.x >= end - 0.005) { sum += b.w; end = b.x + b.w; }
		});
		matched.textContent = test ? "Matched: " + (100 * sum / boxes[0].w).toFixed(1) + "%" : "";
	}

	function boxOf(e) {
		var g = e.target.closest ? e.target.closest("#boxes g") : null;
		return g ? g.box : null;
	}
	svg.addEventListener("mouseover", function (e) { var b = boxOf(e); if (b) details.textContent = b.title; });
	svg.addEventListener("mouseout", function (e) { if (boxOf(e)) details.textContent = " "; });
	svg.addEventListener("click", function (e) { var b = boxOf(e); if (b) zoom(b); });
	reset.addEventListener("click", function () { zoom(boxes[0]); });

	var input = document.createElementNS("http://www.w3.org/1999/xhtml", "input");
	input.setAttribute("type", "search");
	input.setAttribute("placeholder", "Search (regular expression)");
	input.setAttribute("aria-label", "Search");
	input.addEventListener("input", function () { search(input.value); });
	byId("tools").appendChild(input);
	window.addEventListener("keydown", function (e) {
		if ((e.ctrlKey || e.metaKey) && e.key === "f" || e.key === "/" && e.target !== input) { e.preventDefault(); input.focus(); }
		if (e.key === "Escape") { input.value = ""; search(""); zoom(boxes[0]); input.blur(); }
	});
})();
