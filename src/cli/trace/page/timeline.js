/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The timeline: a canvas with one row per rank, redrawn after each change
 */

function make_timeline()
{
	const box = $("rows"), canvas = $("canvas"), strip = $("overview"), tip = $("tip");
	const paint = canvas.getContext("2d"), sketch = strip.getContext("2d");
	const AXIS = 24, GUTTER = 58;
	const margin = last_time / 50 || 1;
	const widest = last_time + 2 * margin;
	let width = 0, height = 0, row = 10;
	let from = 0, span = widest; /* the visible interval, in ns */
	let chosen = -1, hovered = -1, rank = 0; /* chosen, hovered: indices into ops, or -1 */
	let color = {}, load = null, is_due = false;

	const x_of = t => GUTTER + (t - from) * (width - GUTTER) / span;
	const t_of = x => from + (x - GUTTER) * span / (width - GUTTER);
	const y_of = r => Math.round(AXIS + r * row) - box.scrollTop;

	/* -- colors and sizes -- */

	function read_colors()
	{
		const probe = make("span");

		document.body.append(probe);
		for (const name of ["page", "line", "text", "aside", "bad", "accent", "running",
			"on-running", "waiting", "on-waiting", "queued", "panel"]) {
			probe.style.color = `var(--${name})`;
			color[name] = getComputedStyle(probe).color;
		}
		color.font = getComputedStyle(document.body).fontFamily;
		probe.remove();
	}

	function fit_canvas(one, context)
	{
		const scale = window.devicePixelRatio || 1;

		one.width = Math.round(one.clientWidth * scale);
		one.height = Math.round(one.clientHeight * scale);
		context.setTransform(scale, 0, 0, scale, 0, 0);
	}

	function measure()
	{
		fit_canvas(canvas, paint);
		fit_canvas(strip, sketch);
		width = canvas.clientWidth;
		height = canvas.clientHeight;
		row = ($("height").clientHeight - AXIS - 6) / ranks.length;
		load = null;
		draw();
	}

	/* -- drawing -- */

	function rect(x0, x1, y, h)
	{
		const left = Math.max(x0, GUTTER), right = Math.min(x1, width);

		if (right > left)
			paint.fillRect(left, y, right - left, h);
	}

	/* Draw a dashed bar for an operation whose end was observed late, so
	 * that it may have ended anywhere in the bar. */
	function dashed_rect(x0, x1, y, h)
	{
		const left = Math.max(x0, GUTTER), size = Math.min(x1, width) - left;

		if (size <= 0)
			return;
		paint.globalAlpha = 0.3;
		paint.fillRect(left, y, size, h);
		paint.globalAlpha = 1;
		paint.strokeStyle = paint.fillStyle;
		paint.setLineDash([3, 2]);
		paint.strokeRect(left + 0.5, y + 0.5, Math.max(0, size - 1), h - 1);
		paint.setLineDash([]);
	}

	function put_label(text, x0, x1, y, h, fill)
	{
		const left = Math.max(x0, GUTTER) + 4, room = Math.min(x1, width) - left - 4;

		if (room < 30 || h < 12)
			return;
		paint.fillStyle = fill;
		if (paint.measureText(text).width > room) {
			text = text.split(" ")[0];
			if (paint.measureText(text).width > room)
				return;
		}
		paint.fillText(text, left, y + h / 2);
	}

	/* Return the first operation of a rank with times[i] >= t. A rank's
	 * times are sorted. */
	function first_from(r, times, t)
	{
		let low = start[r], high = start[r + 1];

		while (low < high) {
			const middle = (low + high) >> 1;

			if (times[middle] < t)
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}

	/* Return the first operation of a rank that can be visible. */
	const first_seen = r => first_from(r, ops.end, from);

	function draw_bar(i, y, h, marks)
	{
		const xc = x_of(ops.called[i]), xb = x_of(ops.begin[i]), xj = x_of(ops.joined[i]);
		const x1 = Math.max(x_of(ops.end[i]), xb + 1);
		const is_failed = calls.state[ops.call[i]] === "failed";
		const text = calls.name[ops.call[i]]
			+ (ops.number[i] ? ` ${ops.number[i]}` : "");

		if (xb - xc > 1) {
			paint.fillStyle = color.queued;
			rect(xc, xb, y + h - Math.max(2, h / 8), Math.max(2, h / 8));
		}
		if (xj > xb) {
			paint.fillStyle = color.waiting;
			rect(xb, xj, y + Math.round(h * 0.2), Math.round(h * 0.6));
			if (xj - xb > x1 - xj)
				put_label(text, xb, xj, y, h, color["on-waiting"]);
		}
		if (x1 > xj) {
			const is_bound = data.ops.at_most[i] > 0;

			paint.fillStyle = is_failed ? color.bad : color.running;
			(is_bound ? dashed_rect : rect)(xj, x1, y, h);
			/* draw_missing() draws over this bar. */
			const is_covered = is_bound && is_missing[ops.rank[i]];

			if (x1 - xj >= xj - xb && !is_covered)
				put_label(text, xj, x1, y, h,
					is_bound ? color.text : color["on-running"]);
		}
		const m = meet_of(ops.number[i]);
		if (m >= 0 && ranks.length > 1 && meets.joined[m] >= ranks.length
			&& meets.last[m] === ops.rank[i])
			marks.push(xc);
	}

	/* Draw the row of a rank. Bars narrower than a pixel are summed: the
	 * more busy a column of pixels is, the darker it is. */
	function draw_row(r)
	{
		const y = y_of(r) + 2, h = Math.max(3, row - 4), to = from + span;
		const busy = new Float32Array(Math.ceil(width) + 2);
		const wait = new Float32Array(Math.ceil(width) + 2);
		const marks = [];
		let i = first_seen(r);

		for (; i < start[r + 1] && ops.called[i] <= to; i++) {
			const xb = x_of(ops.begin[i]), xj = x_of(ops.joined[i]), x1 = x_of(ops.end[i]);

			if (x1 - xb > 0.8 || row * (x1 - xb) > 12) {
				draw_bar(i, y, h, marks);
			} else if (xb >= GUTTER && xb <= width) {
				busy[xb | 0] += Math.max(x1 - xj, 0.05);
				wait[xb | 0] += xj - xb;
			}
		}
		for (let x = GUTTER; x <= width; x++) {
			if (!busy[x] && !wait[x])
				continue;
			paint.globalAlpha = Math.min(1, 0.3 + 0.7 * (busy[x] + wait[x]));
			paint.fillStyle = busy[x] >= wait[x] ? color.running : color.waiting;
			paint.fillRect(x, y, 1, h);
		}
		paint.globalAlpha = 1;
		paint.fillStyle = color.text;
		for (let m = 0; m < marks.length; m++) {
			/* Skip marks that would overlap the previous one. */
			if (marks[m] < GUTTER || marks[m] > width || marks[m] - (marks[m - 1] ?? -99) < 9)
				continue;
			paint.beginPath();
			paint.moveTo(marks[m] - 4, y - 2);
			paint.lineTo(marks[m] + 4, y - 2);
			paint.lineTo(marks[m], y + 4);
			paint.fill();
		}
	}

	/* Draw the box of a rank that has not called the stalled collective. */
	function draw_missing(r)
	{
		if (!is_missing[r])
			return;
		const x0 = Math.max(x_of(stall_at), GUTTER - 4), x1 = Math.min(x_of(data.now), width + 4);
		const y = y_of(r) + 2, h = Math.max(3, row - 4);

		if (x1 <= GUTTER || x0 >= width)
			return;
		paint.strokeStyle = color.bad;
		paint.setLineDash([5, 4]);
		paint.strokeRect(x0 + 0.5, y + 0.5, x1 - x0 - 1, h - 1);
		paint.setLineDash([]);
		const text = `has not called ${data.front}`, left = Math.max(x0, GUTTER) + 4;
		const room = paint.measureText(text).width + 8;
		if (h < 12 || left + room > x1)
			return;
		paint.fillStyle = color.page;
		paint.fillRect(left, y + 3, room, h - 6);
		put_label(text, left, x1, y, h, color.bad);
	}

	function draw_axis()
	{
		const wanted = span / Math.max(2, (width - GUTTER) / 110);
		const power = 10 ** Math.floor(Math.log10(wanted));
		const step = [1, 2, 5, 10].map(s => s * power).find(s => s >= wanted);
		let t = Math.ceil((from - zero) / step) * step;

		paint.fillStyle = color.page;
		paint.fillRect(0, 0, width, AXIS - 2);
		paint.fillStyle = color.line;
		paint.fillRect(0, AXIS - 2, width, 1);
		for (let k = 0; k < 100 && t + zero <= from + span; k++, t += step) {
			const x = Math.round(x_of(t + zero));

			if (x < GUTTER)
				continue;
			paint.fillStyle = color.line;
			paint.fillRect(x, AXIS - 8, 1, 6);
			paint.fillStyle = color.aside;
			if (x < width - 60)
				paint.fillText(Math.abs(t) < step / 2 ? "0" : time(t, step), x + 4, 11);
		}
	}

	/* Draw a vertical line at a time, with its name. If @is_left and there
	 * is room, the name is to the left of the line. */
	function draw_event(t, text, fill, is_left)
	{
		const x = Math.round(x_of(t));

		if (t === null || x < GUTTER || x > width)
			return;
		paint.fillStyle = fill;
		paint.fillRect(x, AXIS - 2, 1, height);
		const room = paint.measureText(text).width + 8;
		const left = x + room > width || (is_left && x - room > GUTTER) ? x - room : x;
		paint.fillStyle = color.page;
		paint.fillRect(left + 1, 2, room, AXIS - 6);
		paint.fillStyle = fill;
		paint.fillText(text, left + 4, 11);
	}

	function draw_chosen()
	{
		for (const i of [hovered, chosen]) {
			if (i < 0)
				continue;
			const x0 = Math.max(x_of(ops.called[i]), GUTTER) - 1;
			const x1 = Math.min(Math.max(x_of(ops.end[i]), x0 + 4), width) + 1;

			if (x1 < GUTTER || x0 > width)
				continue;
			paint.strokeStyle = color.text;
			paint.lineWidth = i === chosen ? 2 : 1;
			paint.strokeRect(x0, y_of(ops.rank[i]) + 1, x1 - x0, Math.max(5, row - 2));
			paint.lineWidth = 1;
		}
	}

	function draw_names(first, last)
	{
		paint.fillStyle = color.page;
		paint.fillRect(0, AXIS - 1, GUTTER - 6, height);
		for (let r = first; r < last; r++) {
			const is_bad = ranks[r] === data.culprit || is_missing[r];

			paint.fillStyle = is_bad ? color.bad : r === rank ? color.text : color.aside;
			paint.font = `${is_bad || r === rank ? "600 " : ""}${row < 13 ? 9 : 12}px `
				+ color.font;
			paint.fillText(row < 13 ? ranks[r] : `rank ${ranks[r]}`, 8, y_of(r) + row / 2);
		}
		paint.font = `11px ${color.font}`;
	}

	function draw_now()
	{
		const first = Math.max(0, Math.floor(box.scrollTop / row - 1));
		const last = Math.min(ranks.length, Math.ceil((box.scrollTop + height) / row));

		is_due = false;
		paint.clearRect(0, 0, width, height);
		paint.font = `11px ${color.font}`;
		paint.textBaseline = "middle";
		for (let r = first; r < last; r++) {
			paint.fillStyle = color.panel;
			if (r % 2 === 0)
				paint.fillRect(GUTTER, y_of(r), width, Math.round(row));
			draw_row(r);
			draw_missing(r);
		}
		draw_chosen();
		draw_names(first, last);
		draw_axis();
		draw_event(data.now, "dump", color.aside, false);
		draw_event(stall_at, "stall", color.bad, true);
		draw_overview();
		$("shown").textContent = `${time(span, span / 100)} from ${time(from - zero, span / 100)}`;
	}

	function draw()
	{
		if (!is_due)
			requestAnimationFrame(draw_now);
		is_due = true;
	}

	/* Return the heights of the overview's columns, which grow with the
	 * number of calls in each column. */
	function count_load()
	{
		const count = new Float64Array(Math.ceil(width) + 1);
		let most = 1;

		for (let i = 0; i < n; i++)
			count[(ops.called[i] + margin) / widest * width | 0]++;
		for (const c of count)
			most = Math.max(most, c);
		return count.map(c => c ? 2 + 20 * Math.log1p(c) / Math.log1p(most) : 0);
	}

	function draw_overview()
	{
		const at = t => (t + margin) / widest * width;
		const high = strip.clientHeight;

		load = load ?? count_load();
		sketch.clearRect(0, 0, width, high);
		sketch.fillStyle = color.queued;
		load.forEach((h, x) => h && sketch.fillRect(x, high - 1 - h, 1, h));
		if (stall_at !== null) {
			sketch.fillStyle = color.bad;
			sketch.fillRect(Math.round(at(stall_at)), 0, 1, high);
		}
		const left = at(from), size = Math.max(3, span / widest * width);
		sketch.globalAlpha = 0.15;
		sketch.fillStyle = color.accent;
		sketch.fillRect(left, 0, size, high);
		sketch.globalAlpha = 1;
		sketch.strokeStyle = color.accent;
		sketch.strokeRect(left + 0.5, 0.5, size - 1, high - 1);
	}

	/* -- the visible interval -- */

	function set_view(t, size)
	{
		span = Math.min(Math.max(size, 20), widest);
		from = Math.min(Math.max(t, -margin), widest - margin - span);
		draw();
	}

	function zoom(factor, x = GUTTER + (width - GUTTER) / 2)
	{
		const t = t_of(Math.max(x, GUTTER));

		set_view(t - (t - from) * factor, span * factor);
	}

	/* Show the collectives before the stall, and some time after its last
	 * call. The stall itself extends beyond the right edge. */
	function show_stall()
	{
		if (stall_at === null) {
			set_view(-margin, widest);
			return;
		}
		const first = meet_of(data.first);
		const begin = first >= 0 && meets.joined[first]
			? Math.min(meets.first[first], stall_at) : stall_at;
		const end = stall_at + meets.behind[front];
		const size = (end - begin) * 1.5 || widest;

		set_view(begin - size / 20, size * 1.2);
	}

	function into_view(i)
	{
		const y = ops.rank[i] * row, shown = height - AXIS;

		if (ops.end[i] < from || ops.called[i] > from + span)
			set_view((ops.called[i] + ops.end[i] - span) / 2, span);
		if (y < box.scrollTop)
			box.scrollTop = y;
		else if (y + row > box.scrollTop + shown)
			box.scrollTop = y + row - shown;
	}

	/* -- details -- */

	const line = text => make("span", text);

	function details(i)
	{
		const call = ops.call[i], m = meet_of(ops.number[i]);
		const is_joined = m >= 0 && ranks.length > 1;
		const so_far = calls.done[call] ? "" : " so far";
		const lines = [
			make("b", calls.text[call]),
			line(`rank ${ranks[ops.rank[i]]}`
				+ (ops.number[i] ? `, collective ${ops.number[i]}` : "")
				+ `, ${bytes(calls.bytes[call])}, ${calls.state[call]}`),
		];

		if (names(call))
			lines.push(line(names(call)));
		lines.push(line(`called at ${time(ops.called[i] - zero)}`
			+ (data.ops.started[i] >= 0
				? `, seen to start ${time(data.ops.started[i])} later` : "")));
		if (data.ops.begin[i])
			lines.push(line(`queued for ${time(data.ops.begin[i])}${so_far}`));
		if (data.ops.joined[i])
			lines.push(line(`waited for the last rank for ${time(data.ops.joined[i])}${so_far}`));
		if (data.ops.end[i])
			lines.push(line(data.ops.at_most[i]
				? `ran for at most ${time(data.ops.end[i])}: its end was not observed`
				: `ran for ${time(data.ops.end[i])}${so_far}`));
		if (is_joined && meets.joined[m] >= ranks.length)
			lines.push(line(`rank ${ranks[meets.last[m]]} called last, `
				+ `${time(meets.behind[m])} after the first`));
		else if (is_joined)
			lines.push(line(`called by ${meets.joined[m]} of ${ranks.length} ranks`));
		return lines;
	}

	function show_tip(i, x, y)
	{
		tip.hidden = i < 0;
		if (i < 0)
			return;
		tip.replaceChildren(...details(i));
		const top = box.offsetTop + y + 14;
		const left = Math.min(x + 12, width - tip.offsetWidth);
		tip.style.left = `${Math.max(0, left)}px`;
		tip.style.top = `${top}px`;
	}

	function tip_for_chosen()
	{
		const y = chosen < 0 ? -1 : y_of(ops.rank[chosen]);

		if (y < AXIS - row || y > height)
			show_tip(-1);
		else
			show_tip(chosen, Math.max(GUTTER, x_of(ops.begin[chosen])), y + row - 8);
	}

	/* Return the operation at or near a position, or -1 if there is
	 * none. */
	function op_at(x, y)
	{
		const r = Math.floor((y - AXIS + box.scrollTop) / row);
		let best = -1, best_distance = 5;

		if (r < 0 || r >= ranks.length || y < AXIS || x < GUTTER)
			return -1;
		for (let i = first_seen(r) - 1; i < start[r + 1]; i++) {
			if (i < start[r])
				continue;
			const x0 = x_of(ops.begin[i]), x1 = x_of(ops.end[i]);
			const distance = x < x0 ? x0 - x : x > x1 ? x - x1 : 0;

			if (distance < best_distance) {
				best = i;
				best_distance = distance;
			}
			if (x0 > x + 5 || best_distance === 0)
				break;
		}
		return best;
	}

	function choose(i)
	{
		chosen = i;
		hovered = -1;
		if (i >= 0) {
			rank = ops.rank[i];
			into_view(i);
		}
		tip_for_chosen();
		draw();
	}

	/* Return the current rank's operation that is nearest in time to the
	 * chosen operation or, if none is chosen, to the stall if that is
	 * visible, or to the middle of the view. */
	function nearest()
	{
		const t = chosen >= 0 ? ops.begin[chosen]
			: stall_at !== null && stall_at >= from && stall_at <= from + span ? stall_at
			: from + span / 2;

		return Math.min(first_from(rank, ops.begin, t), start[rank + 1] - 1);
	}

	function step(by)
	{
		const i = chosen >= 0 ? chosen + by : nearest();

		if (i >= start[rank] && i < start[rank + 1])
			choose(i);
	}

	function step_rank(by)
	{
		rank = Math.min(Math.max(rank + by, 0), ranks.length - 1);
		if (start[rank + 1] > start[rank])
			choose(nearest());
		else
			choose(-1);
	}

	/* -- input -- */

	const keys = {
		"+": () => zoom(1 / 1.5),
		"=": () => zoom(1 / 1.5),
		"-": () => zoom(1.5),
		ArrowLeft: () => set_view(from - span / 8, span),
		ArrowRight: () => set_view(from + span / 8, span),
		ArrowUp: () => step_rank(-1),
		ArrowDown: () => step_rank(1),
		n: () => step(1),
		p: () => step(-1),
		f: () => set_view(-margin, widest),
		Home: show_stall,
		Escape: () => choose(-1),
	};

	box.addEventListener("keydown", event => {
		const key = keys[event.key] ?? keys[event.key.toLowerCase()];

		if (!key || event.ctrlKey || event.altKey || event.metaKey)
			return;
		event.preventDefault();
		key();
		tip_for_chosen();
	});

	/* Do not zoom while the user is scrolling the page with the wheel. */
	let scrolled = -1e9;
	window.addEventListener("scroll", () => scrolled = performance.now(), { passive: true });
	box.addEventListener("wheel", event => {
		if (performance.now() - scrolled < 400 && !event.ctrlKey)
			return;
		event.preventDefault();
		const pixels = event.deltaMode ? 30 : 1;
		if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
			set_view(from + (event.deltaX || event.deltaY) * pixels * span / width, span);
		else
			zoom(2 ** (event.deltaY * pixels / 250), event.offsetX);
		show_tip(-1);
	}, { passive: false });

	/* Pressed pointers, by id. One pointer moves the view; two pointers
	 * zoom. */
	const held = new Map();
	let moved = 0;

	function place(event)
	{
		const at = canvas.getBoundingClientRect();

		return { x: event.clientX - at.left, y: event.clientY - at.top };
	}

	function move_held(event)
	{
		const at = place(event), before = held.get(event.pointerId);
		const other = [...held].find(([id]) => id !== event.pointerId)?.[1];

		held.set(event.pointerId, at);
		moved += Math.abs(at.x - before.x) + Math.abs(at.y - before.y);
		if (other) {
			const was = Math.abs(before.x - other.x), is = Math.abs(at.x - other.x);

			zoom(Math.max(was, 10) / Math.max(is, 10), (at.x + other.x) / 2);
			return;
		}
		if (event.pointerType === "mouse")
			box.scrollTop -= at.y - before.y;
		set_view(from - (at.x - before.x) * span / (width - GUTTER), span);
	}

	box.addEventListener("pointerdown", event => {
		/* Ignore clicks on the scroll bar. */
		if (event.button !== 0 || event.offsetX > width)
			return;
		held.set(event.pointerId, place(event));
		moved = 0;
	});
	box.addEventListener("pointermove", event => {
		if (held.has(event.pointerId)) {
			move_held(event);
			if (moved > 4) {
				box.setPointerCapture(event.pointerId);
				box.classList.add("held");
				show_tip(-1);
			}
			return;
		}
		const at = place(event), i = op_at(at.x, at.y);
		if (i !== hovered)
			draw();
		hovered = i;
		if (i >= 0 || chosen < 0)
			show_tip(i, at.x, at.y);
	});
	function let_go(event)
	{
		const at = place(event);

		if (held.delete(event.pointerId) && event.type === "pointerup" && moved <= 4)
			choose(op_at(at.x, at.y));
		box.classList.remove("held");
	}
	box.addEventListener("pointerup", let_go);
	box.addEventListener("pointercancel", let_go);
	box.addEventListener("pointerleave", () => {
		hovered = -1;
		tip_for_chosen();
		draw();
	});
	box.addEventListener("blur", () => show_tip(-1));
	box.addEventListener("scroll", () => {
		draw();
		tip_for_chosen();
	});

	function center(event)
	{
		if (event.buttons)
			set_view(event.offsetX / width * widest - margin - span / 2, span);
	}
	strip.addEventListener("pointerdown", event => {
		strip.setPointerCapture(event.pointerId);
		center(event);
	});
	strip.addEventListener("pointermove", center);

	$("stall").addEventListener("click", show_stall);
	$("fit").addEventListener("click", () => set_view(-margin, widest));
	$("in").addEventListener("click", () => zoom(1 / 1.5));
	$("out").addEventListener("click", () => zoom(1.5));

	/* -- start -- */

	const is_missing = ranks.map((number, r) => {
		if (stall_at === null)
			return false;
		if (data.missing.length)
			return data.missing.includes(number);
		for (let i = start[r]; i < start[r + 1]; i++)
			if (ops.number[i] >= data.front)
				return false;
		return true;
	});

	$("stall").disabled = stall_at === null;
	rank = Math.max(0, ranks.indexOf(data.culprit));
	read_colors();
	new ResizeObserver(measure).observe(canvas);
	measure();
	show_stall();
	draw_now();

	return {
		recolor()
		{
			read_colors();
			draw_now();
		},
		show(one)
		{
			const size = one.end - one.from || 1000;

			set_view(one.from - size / 2, size * 2);
			choose(one.op);
			box.focus({ preventScroll: true });
			box.scrollIntoView({ block: "center" });
		},
	};
}
