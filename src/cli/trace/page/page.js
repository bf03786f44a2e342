/* SPDX-License-Identifier: Apache-2.0 */

/* The last part of the script: light and dark, and the start. */

function follow_theme(timeline)
{
	const root = document.documentElement, button = $("theme");
	const system = matchMedia("(prefers-color-scheme: dark)");
	const is_dark = () => root.classList.contains("dark")
		|| (system.matches && !root.classList.contains("light"));

	function apply()
	{
		button.setAttribute("aria-pressed", is_dark());
		timeline.recolor();
	}

	button.addEventListener("click", () => {
		const dark = !is_dark();

		root.classList.toggle("dark", dark);
		root.classList.toggle("light", !dark);
		apply();
	});
	system.addEventListener("change", apply);
	/* Paper is light. */
	let before = "";
	window.addEventListener("beforeprint", () => {
		before = root.className;
		root.classList.remove("dark");
		root.classList.add("light");
		timeline.recolor();
	});
	window.addEventListener("afterprint", () => {
		root.className = before;
		timeline.recolor();
	});
	apply();
}

const timeline = make_timeline();
follow_theme(timeline);
sort_ranks();
show_calls(timeline);
show_kinds();
/* For those who measure: the first frame is drawn. */
requestAnimationFrame(() => setTimeout(() => performance.mark("timeline")));
