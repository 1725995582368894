// SPDX-License-Identifier: Apache-2.0
// What the scripts of all documents use: elements, and the theme.

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

const dark = () => document.documentElement.dataset.theme === "dark";

/** A button that switches between the light and the dark theme. @param {() => void} redraw */
function themeButton(redraw) {
	const b = el("button", {"aria-pressed": String(dark()), onclick() {
		document.documentElement.dataset.theme = dark() ? "light" : "dark";
		b.setAttribute("aria-pressed", String(dark()));
		redraw();
	}}, "Dark");
	return b;
}

/** Uses the theme of the system, also when it changes. @param {() => void} redraw */
function followTheme(redraw) {
	const wanted = matchMedia("(prefers-color-scheme: dark)");
	document.documentElement.dataset.theme = wanted.matches ? "dark" : "light";
	wanted.addEventListener("change", (e) => {
		document.documentElement.dataset.theme = e.matches ? "dark" : "light";
		redraw();
	});
}
