/* SPDX-License-Identifier: Apache-2.0 */

/* The last part of the script: light and dark, and the start. */

function follow_theme(timeline)
{
	const style = document.documentElement.style, button = $("theme");
	const system = matchMedia("(prefers-color-scheme: dark)");
	const is_dark = () => style.colorScheme ? style.colorScheme === "dark" : system.matches;
	let chosen = "";

	function apply(scheme)
	{
		style.colorScheme = scheme;
		button.setAttribute("aria-pressed", is_dark());
		timeline.recolor();
	}

	button.addEventListener("click", () => apply(chosen = is_dark() ? "light" : "dark"));
	system.addEventListener("change", () => apply(chosen));
	/* Paper is light. */
	window.addEventListener("beforeprint", () => apply("light"));
	window.addEventListener("afterprint", () => apply(chosen));
	apply(chosen);
}

const timeline = make_timeline();
follow_theme(timeline);
sort_ranks();
show_calls(timeline);
show_kinds();
/* For those who measure: the first frame is drawn. */
requestAnimationFrame(() => setTimeout(() => performance.mark("timeline")));
