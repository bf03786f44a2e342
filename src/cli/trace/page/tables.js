/* SPDX-License-Identifier: Apache-2.0 */

/* Sortable tables of ranks, of calls, and of kinds of calls */

/* Turn the heads of a table into buttons that call sort(column, direction). The
 * direction is 1 or -1. The first click on a column of numbers sorts the
 * largest to the top. */
function make_heads(heads, is_number, sort)
{
	heads.forEach((head, column) => {
		const button = make("button", head.textContent, { type: "button" });

		head.replaceChildren(button);
		button.addEventListener("click", () => {
			const now = head.getAttribute("aria-sort");
			const up = now ? now === "descending" : !is_number(column);

			heads.forEach(other => other.removeAttribute("aria-sort"));
			head.setAttribute("aria-sort", up ? "ascending" : "descending");
			sort(column, up ? 1 : -1);
		});
	});
}

function compare(a, b)
{
	return typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true })
		: a - b;
}

/* Sort rows by key. Rows without a key are last in both directions. */
function sort_rows(rows, key_of, direction)
{
	const keys = new Map(rows.map(row => [row, key_of(row)]));

	rows.sort((a, b) => {
		const x = keys.get(a), y = keys.get(b);

		if (x === null || y === null)
			return (x === null) - (y === null);
		return direction * compare(x, y);
	});
}

/* Make the table of ranks sortable. It is part of the page's markup. */
function sort_ranks()
{
	const body = $("ranks").tBodies[0];

	make_heads([...$("ranks").tHead.rows[0].cells], column => column > 2, (column, direction) => {
		const rows = [...body.rows];

		sort_rows(rows, row => {
			const key = row.cells[column].dataset.key;

			return key === undefined ? null : Number(key);
		}, direction);
		body.append(...rows);
	});
}

const PAGE = 25;

/* Make a table of @rows in the element @id. It shows PAGE rows at a time and is
 * first sorted by column @by. A column has a title, key(row) for sorting, and
 * text(row) or, for an element, cell(row). search(row) returns the text to
 * which the filter applies. */
function make_table(id, title, columns, rows, by, search)
{
	const host = $(id);
	const tools = make("div", undefined, { className: "tools" });
	const find = make("input", undefined, { type: "search", placeholder: "Filter by name" });
	const count = make("span", "", { className: "count", role: "status" });
	const wide = make("div", undefined, { className: "wide", tabIndex: 0, role: "region" });
	const table = make("table");
	const body = make("tbody");
	const head = table.createTHead().insertRow();
	let shown = rows.slice(), page = 0;

	find.setAttribute("aria-label", `Filter: ${title}`);
	wide.setAttribute("aria-label", title);
	const turn = [
		["First", () => 0], ["Previous", () => page - 1], ["Next", () => page + 1],
		["Last", pages => pages - 1],
	].map(([text, to]) => {
		const button = make("button", text, { type: "button" });

		button.addEventListener("click", () => {
			page = to(Math.ceil(shown.length / PAGE));
			show();
		});
		return button;
	});

	function show()
	{
		const from = page * PAGE, to = Math.min(shown.length, from + PAGE);

		body.replaceChildren(...shown.slice(from, to).map(row => {
			const line = make("tr");

			for (const column of columns) {
				const cell = line.insertCell();

				cell.className = column.look ?? (column.is_number ? "number" : "");
				cell.append(column.cell ? column.cell(row) : column.text(row));
			}
			return line;
		}));
		count.textContent = shown.length
			? `${from + 1} to ${to} of ${shown.length}` : "none";
		turn[0].disabled = turn[1].disabled = page === 0;
		turn[2].disabled = turn[3].disabled = to === shown.length;
	}

	for (const column of columns)
		head.append(make("th", column.title, {
			scope: "col", className: column.is_number ? "number" : "",
		}));
	let sorted;
	make_heads([...head.cells], column => columns[column].is_number, (column, direction) => {
		sorted = [columns[column].key, direction];
		sort_rows(shown, ...sorted);
		page = 0;
		show();
	});
	find.addEventListener("input", () => {
		const wanted = find.value.toLowerCase();

		shown = rows.filter(row => search(row).toLowerCase().includes(wanted));
		sort_rows(shown, ...sorted);
		page = 0;
		show();
	});
	table.append(body);
	wide.append(table);
	tools.append(find, count, ...turn);
	host.append(tools, wide);
	head.cells[by].firstChild.click();
	/* Keep the height if the last page has fewer rows, so that the elements
	 * below do not move. */
	wide.style.minHeight = shown.length > PAGE ? `${wide.offsetHeight}px` : "";
}

/* ---- calls ------------------------------------------------------------ */

/* Return the function that formats the times of a row. If is_bound is true, the
 * times are upper bounds. */
function at_most(row)
{
	return row.is_bound ? ns => `\u2264 ${time(ns)}` : time;
}

/* Make one row for each collective, and one for each other call of a rank. */
function find_calls()
{
	const rows = [], of_meet = new Map();

	for (let i = 0; i < n; i++) {
		const m = meet_of(ops.number[i]);
		let row = m >= 0 ? of_meet.get(m) : undefined;

		if (!row) {
			row = {
				op: i, call: ops.call[i], number: ops.number[i], meet: m,
				from: ops.called[i], begun: 0, end: 0, is_done: true, state: "",
				is_bound: false,
			};
			rows.push(row);
			if (m >= 0)
				of_meet.set(m, row);
		}
		row.from = Math.min(row.from, ops.called[i]);
		row.begun = Math.max(row.begun, ops.joined[i]);
		row.end = Math.max(row.end, ops.end[i]);
		row.is_bound ||= data.ops.at_most[i] > 0;
		if (!calls.done[ops.call[i]]) {
			row.is_done = false;
			row.state = calls.state[ops.call[i]];
		}
	}
	for (const row of rows) {
		const m = row.meet;

		row.joined = m >= 0 ? meets.joined[m] : 1;
		row.is_all = m >= 0 && row.joined >= ranks.length && ranks.length > 1;
		row.last = row.is_all ? ranks[meets.last[m]] : null;
		row.behind = row.is_all ? meets.behind[m] : null;
		row.took = row.is_done && (m < 0 || row.joined >= ranks.length)
			? row.end - row.begun : null;
		row.whole = row.is_done ? row.end - row.from : null;
		row.state = row.is_done ? "completed" : row.state;
	}
	return rows;
}

function or_dash(value, text)
{
	return value === null ? "\u2013" : text(value);
}

function text_column(title, text_of, look)
{
	return { title, look, key: row => text_of(row) || null, text: text_of };
}

function number_column(title, key, text)
{
	return { title, is_number: true, key, text: row => or_dash(key(row), () => text(row)) };
}

/* Make the text of a call: its name, which does not wrap, and its arguments. */
function words(name, text)
{
	const part = document.createDocumentFragment();

	part.append(make("span", name, { className: "call" }),
		make("span", text.slice(name.length), { className: "aside" }));
	return part;
}

function call_column(name_of, text_of)
{
	return {
		title: "call", look: "text words", key: text_of,
		cell: row => words(name_of(row), text_of(row)),
	};
}

/* Make a button with the number of a call, which shows the call in the
 * timeline. */
function show_button(timeline, row)
{
	const button = make("button", row.number || "show", {
		type: "button", title: "Show in the timeline",
	});

	button.addEventListener("click", () => timeline.show(row));
	return button;
}

function show_calls(timeline)
{
	make_table("calls", "Calls", [
		{
			title: "number", is_number: true,
			key: row => row.meet >= 0 ? row.number : null,
			cell: row => show_button(timeline, row),
		},
		call_column(row => calls.name[row.call], row => calls.text[row.call]),
		text_column("tag, label", row => names(row.call), "text"),
		number_column("bytes", row => calls.bytes[row.call],
			row => bytes(calls.bytes[row.call])),
		number_column("ranks", row => row.joined,
			row => row.meet < 0 ? `rank ${ranks[ops.rank[row.op]]}`
				: `${row.joined} of ${ranks.length}`),
		text_column("state", row => row.state),
		number_column("when", row => row.from, row => time(row.from - zero)),
		number_column("called last", row => row.last, row => `rank ${row.last}`),
		number_column("by", row => row.behind, row => time(row.behind)),
		{
			title: "ran", is_number: true, key: row => row.is_bound ? null : row.took,
			text: row => or_dash(row.took, at_most(row)),
		},
		{
			title: "total", is_number: true, key: row => row.is_bound ? null : row.whole,
			text: row => or_dash(row.whole, at_most(row)),
		},
	], find_calls(), 0, row => `${row.number} ${calls.text[row.call]} ${names(row.call)} ${row.state}`);
}

function spread_column(title, times, which)
{
	return number_column(title, row => row[times].n ? row[times][which] : null,
		row => time(row[times][which]));
}

function show_kinds()
{
	const names_of = row => [row.tag, row.label].filter(text => text).join(", ");

	make_table("kinds", "Kinds of calls", [
		call_column(row => row.call, row => row.text),
		text_column("tag, label", names_of, "text"),
		number_column("calls", row => row.calls, row => row.calls),
		number_column("time", row => row.total_ns, row => time(row.total_ns)),
		spread_column("queued p50", "queueing_ns", "p50"),
		spread_column("p95", "queueing_ns", "p95"),
		spread_column("waited p50", "waiting_ns", "p50"),
		spread_column("p95", "waiting_ns", "p95"),
		spread_column("ran p50", "execution_ns", "p50"),
		spread_column("p95", "execution_ns", "p95"),
		spread_column("max", "execution_ns", "max"),
		spread_column("idle p50", "between_ns", "p50"),
	], data.sites, 3, row => `${row.text} ${names_of(row)}`);
}
