/* SPDX-License-Identifier: Apache-2.0 */

/* The last part of the script: starts the page */

const timeline = make_timeline();

function set_scheme(scheme)
{
	document.documentElement.style.colorScheme = scheme;
	timeline.recolor();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.recolor());
/* Print in light mode. */
window.addEventListener("beforeprint", () => set_scheme("light"));
window.addEventListener("afterprint", () => set_scheme(""));
sort_ranks();
show_calls(timeline);
show_kinds();
/* For measurements: mark the time when the first frame was drawn. */
requestAnimationFrame(() => setTimeout(() => performance.mark("timeline")));
