/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The first part of the script of cohort trace --html: the data of the dump,
 * and functions for text
 *
 * The parts form one script, in the order data.js, tables.js, timeline.js,
 * page.js. They insert the dump's text into the page as text, never as markup.
 */
"use strict";

const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);

/* ---- the data: one row per operation, sorted by rank -------------------- */

/* Convert a table, which is a list of its cells, to columns. */
function columns(table, ...names)
{
	const made = names.map(() => []);

	for (let i = 0; i < table.length; i += names.length)
		made.forEach((column, c) => column.push(table[i + c]));
	return Object.fromEntries(names.map((name, c) => [name, made[c]]));
}

const ranks = data.ranks.map(rank => rank.rank);
const calls = columns(data.calls, "name", "text", "bytes", "tag", "label", "state", "done");
const meets = columns(data.collectives, "joined", "last", "first", "behind");
data.ops = columns(data.ops, "call", "number", "submitted", "started", "begin", "joined", "end",
	"at_most");
const n = data.ops.call.length;
const start = [0]; /* index of each rank's first row, then the number of rows */
for (const rank of data.ranks)
	start.push(start[start.length - 1] + rank.operations);

const ops = {
	call: data.ops.call,
	number: data.ops.number,
	rank: new Uint16Array(n), /* index of the rank */
	called: new Float64Array(n),
	begin: new Float64Array(n),
	joined: new Float64Array(n),
	end: new Float64Array(n),
};
for (let r = 0; r < ranks.length; r++) {
	let called = 0;
	for (let i = start[r]; i < start[r + 1]; i++) {
		called += data.ops.submitted[i];
		ops.rank[i] = r;
		ops.called[i] = called;
		ops.begin[i] = called + data.ops.begin[i];
		ops.joined[i] = ops.begin[i] + data.ops.joined[i];
		ops.end[i] = ops.joined[i] + data.ops.end[i];
	}
}

/* Return the index of a collective in meets, or -1 if it is missing. */
function meet_of(number)
{
	const m = number ? number - data.lowest : -1;

	return m < meets.joined.length ? m : -1;
}

const front = meet_of(data.front);
const stall_at = front >= 0 && meets.joined[front] ? meets.first[front] : null;
/* Show times relative to the stall, or to the first call if there is no
 * stall. */
const zero = stall_at ?? 0;
const last_time = n ? Math.max(data.now, ops.end.reduce((a, b) => Math.max(a, b))) : 1e6;

/* ---- words ------------------------------------------------------------ */

/* Return a time in the format of cohort trace. If @step is given, use enough
 * decimals to distinguish times that are @step ns apart. */
function time(ns, step)
{
	const size = Math.abs(ns);
	const [unit, name] = size < 1e6 ? [1e3, "us"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
	const places = step ? Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9)) : 1;

	return `${ns < 0 ? "\u2212" : ""}${(size / unit).toFixed(Math.min(places, 20))} ${name}`;
}

function bytes(count)
{
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
	let unit = 0;

	for (; count >= 1024 && unit < units.length - 1; unit++)
		count /= 1024;
	return `${count.toFixed(unit && count < 100 ? 1 : 0)} ${units[unit]}`;
}

function names(call)
{
	return [calls.tag[call], calls.label[call]].filter(text => text).join(", ");
}

function make(tag, text, set = {})
{
	const element = Object.assign(document.createElement(tag), set);

	if (text !== undefined)
		element.textContent = text;
	return element;
}
