"""report.html in a real browser: what it shows is what the CSV and the JSON say, and it does what a person asks of it."""
import csv
import json
import os
import re

import browser
from harness import COMPLETE, JOBS, LOST, PYTHON, Report, check, check_equal, program_path, skip, test, wait_until
from page_truth import FOREVER, Truth, frames_of, held_after, own_line

MLP = os.path.join(JOBS, "mlp_adamw.py")
RECOMPUTE = os.path.join(JOBS, "transformer_recompute.py")
TIMEOUT = 180  # a browser takes its time on a busy machine
MARGIN_LEFT, MARGIN_RIGHT = 74, 10  # of the page's plots, in pixels


# --- the page --------------------------------------------------------------------------------

def opened(folder, **options):
    """A browser with the report of a folder, read to its end."""
    reason = browser.why_no_browser()
    if reason:
        skip(reason)
    page = browser.Browser(**options)
    try:
        page.open(os.path.join(folder, "report.html"))
        page.wait("document.documentElement.dataset.ready || document.documentElement.dataset.failed", "the page")
        check_equal(page.data("html").get("failed"), None, "failure of the page")
    except BaseException:
        page.close()
        raise
    return page


def check_no_errors(page):
    wrong = [line for line in page.log() if "SEVERE" in line or "rror" in line]
    check(not wrong, "the browser complains:", wrong)


def settle(page):
    """Everything that was asked for is drawn."""
    page.wait("view.pending.size === 0", "the last change to be drawn")


def numbers(page, selector, *names):
    return [tuple(float(row[name]) for name in names) for row in page.all_data(selector)]


# --- what is there -----------------------------------------------------------------------------

@test(timeout=TIMEOUT)
def test_page_says_of_the_peak_what_the_reports_say(context):
    report = context.traced(MLP)
    truth, rows, tasks = Truth(report), report.rows, report.tasks
    peak, device = truth.live["devices"]["cpu"]["peak"], truth.json["devices"]["cpu"]["peak"]
    with opened(report.folder) as page:
        shown = page.data("#peak")
        check_equal(int(shown["bytes"]), truth.json["summary"]["peak_bytes"], "bytes of the peak")
        check_equal((shown["task"], shown["operator"], shown["phase"]), (str(peak["task"]), peak["node_name"], peak["task_name"]), "who made it")
        check_equal(float(shown["time"]), peak["time_ns"] - truth.first, "when")
        check_equal((shown["step"], shown["module"]), (tasks[peak["task"]]["step"], tasks[peak["task"]]["graph_name"]), "step and module")
        line = page.data("#peak-line")
        check_equal(line["leaf"], f'{tasks[peak["task"]]["file_name"]}:{tasks[peak["task"]]["line_num"]}', "the innermost line")
        check(line["own"].startswith(MLP), "the job's line:", line)
        check_equal({item["category"]: int(item["value"]) for item in page.all_data("#category-legend li")},
                    {name: size for name, size in device.items() if size and name != "Total"}, "categories at the peak")
        check_equal(int(page.data("#tile-persistent")["value"]),
                    sum(int(row["size"]) for row in rows if row["is_persistent"] == "1"), "bytes alive at the end")
        check_equal(int(page.data("#tile-real")["value"]), truth.peak_by_tasks(False), "the peak of lifetimes")
        check_equal(int(page.data("#tile-theory")["value"]), truth.peak_by_tasks(True), "the peak after last uses")
        lines = truth.by(own_line, truth.alive(peak["time_ns"] - truth.first))
        check_equal({row["name"]: int(row["value"]) for row in page.all_data("#holders tbody tr")},
                    dict(lines.most_common(8)), "lines that hold it")
        check_equal(page.data("#complete")["complete"], "true", "complete")
        check_equal(page.texts("#limitations li"), truth.json["limitations"], "limitations")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_forward_line_of_a_peak_in_the_backward_pass_is_shown(context):
    report = context.traced(RECOMPUTE)
    peak = report.live["devices"]["cpu"]["peak"]
    task = report.tasks[peak["task"]]
    check_equal(peak["task_name"], "backward", "phase of the peak")
    with opened(report.folder) as page:
        check_equal(page.data("#peak-forward")["leaf"], f'{task["forward_file_name"]}:{task["forward_line_num"]}', "forward line")
        check_equal(page.data("#peak")["module"], task["graph_name"], "module")


@test(timeout=TIMEOUT)
def test_steps_of_the_page_are_those_of_the_csv(context):
    report = context.traced(MLP)
    with opened(report.folder) as page:
        want, before = [], None
        for row in report.steps:
            end = int(row["end_bytes"])
            want.append((int(row["step"]), int(row["peak_bytes"]), end, 0 if before is None else end - before, int(row["duration_ns"])))
            before = end
        check_equal(numbers(page, "#step-table tbody tr", "step", "peak", "end", "growth", "time"), want, "steps")
        check(len(want) >= 3, f"{len(want)} steps")


@test(timeout=TIMEOUT)
def test_device_that_is_too_small_is_told(context):
    report = context.traced(MLP)
    peak = report.json["summary"]["peak_bytes"]
    with opened(report.folder) as page:
        check_equal(page.data("#fit-answer")["verdict"], "fits", "the size that is proposed")
        for size, verdict in ((peak - 1, "lacks"), (peak, "fits")):
            page.type("#capacity", f"{size / 2 ** 30:.20f}")
            check_equal(page.data("#fit-answer")["verdict"], verdict, f"{size} bytes for a peak of {peak}")


# --- what it does --------------------------------------------------------------------------------

@test(timeout=TIMEOUT)
def test_plot_shows_the_highest_total_on_both_axes_and_by_every_group(context):
    report = context.traced(RECOMPUTE)
    truth = Truth(report)
    peak = truth.live["devices"]["cpu"]["peak"]["time_ns"] - truth.first
    alive = truth.alive(peak)
    keys = {"category": lambda block: block["type"], "phase": lambda block: block["task_name"],
            "operator": lambda block: block["node_name"], "line": own_line,
            "innermost": lambda block: f'{block["file_name"]}:{block["line_num"]}', "owner": lambda block: block["owner"] or "no owner known"}
    with opened(report.folder) as page:
        check_equal(float(page.data("#chart")["highest"]), truth.highest(), "highest over time")
        page.click("button[data-axis=tasks]")
        page.wait("document.getElementById('chart').dataset.axis === 'tasks'", "the other axis")
        check_equal(float(page.data("#chart")["highest"]), truth.highest(), "highest over tasks")
        check_equal(float(page.data("#chart")["to"]) >= len(report.tasks), True, "the axis reaches the last task")
        for kind, key in keys.items():
            page.choose("#group", kind)
            settle(page)
            sums = truth.by(key, alive)
            shown = {button["group"]: int(value["value"]) for button, value in
                     zip(page.all_data("#chart-legend button"), page.all_data("#chart-legend .value"))}
            others = sum(size for name, size in shown.items() if name.endswith("others"))
            named = {name: size for name, size in shown.items() if size and not name.endswith("others")}
            check(named, f"no group by {kind}")
            check_equal(named, {name: sums[name] for name in named}, f"bytes at the peak by {kind}")
            check_equal(sum(named.values()) + others, sum(sums.values()), f"sum by {kind}")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_modules_are_gone_down_and_up_again(context):
    report = context.traced(RECOMPUTE)
    with opened(report.folder) as page:
        page.choose("#group", "module")
        settle(page)
        names = [item["group"] for item in page.all_data("#chart-legend button")]
        check("Decoder.layers" in names, "modules of the first level:", names)
        page.click("#chart-legend button[data-group='Decoder.layers']")
        page.wait("document.getElementById('path').textContent.includes('layers')", "the path")
        settle(page)
        below = [item["group"] for item in page.all_data("#chart-legend button")]
        check({"Decoder.layers.0", "Decoder.layers.1", "Decoder.layers.2"} <= set(below), "modules below:", below)
        page.click("#path button")
        settle(page)
        check_equal([item["group"] for item in page.all_data("#chart-legend button")], names, "modules after going up")


@test(timeout=TIMEOUT)
def test_dragging_zooms_and_a_double_click_shows_all(context):
    report = context.traced(MLP)
    truth = Truth(report)
    with opened(report.folder) as page:
        check_equal(int(page.data("#blocks")["drawn"]), len(truth.blocks), "blocks in the whole view")
        width = page.run("return document.getElementById('chart').clientWidth")
        inner = width - MARGIN_LEFT - MARGIN_RIGHT
        whole = page.data("#chart")
        last, left, right = float(whole["to"]), MARGIN_LEFT + 100, MARGIN_LEFT + 400
        page.pointer("#chart", ("move", left, 100), ("down",), ("move", right, 120), ("up",))
        page.wait(f"document.getElementById('chart').dataset.to !== '{whole['to']}'", "the zoom")
        settle(page)
        shown = page.data("#chart")
        for name, x in (("from", left), ("to", right)):
            want, pixel = last * (x - MARGIN_LEFT) / inner, last / inner
            check(abs(float(shown[name]) - want) <= pixel, f"{name}: {shown[name]}, want {want} ± {pixel}")
        part = truth.within(float(shown["from"]), float(shown["to"]))
        check(0 < len(part) < len(truth.blocks), f"{len(part)} blocks in the part of the trace")
        check_equal(int(page.data("#blocks")["drawn"]), len(part), "blocks in the part that is shown")
        check_equal(float(shown["highest"]), truth.highest(float(shown["from"]), float(shown["to"])), "highest of the part")
        instant = page.data("#instant")["time"]
        page.pointer("#chart", ("move", left, 100), ("down",), ("up",), ("down",), ("up",))
        page.wait(f"document.getElementById('chart').dataset.to === '{whole['to']}'", "all of it again")
        settle(page)
        check_equal(page.data("#chart")["from"], "0", "its beginning")
        check_equal(page.data("#instant")["time"], instant, "the instant, which a double click leaves alone")
        page.run("document.getElementById('chart').focus()")
        page.press("+")
        page.wait(f"Number(document.getElementById('chart').dataset.to) < {last}", "a zoom by key")
        page.press("0")
        page.wait(f"document.getElementById('chart').dataset.to === '{whole['to']}'", "all of it by key")
        settle(page)
        page.press("\ue007")  # Enter
        page.wait(f"Number(document.getElementById('instant').dataset.total) === {page.data('#chart')['highest']}", "the highest instant, by key")
        before = page.run("return view.instants[0]")
        page.press(".", ".", ",")
        check_equal(page.run("return view.instants[0]"), before + 1, "an event on, by key")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_block_under_the_pointer_is_its_row(context):
    report = context.traced(MLP)
    rows, truth = report.rows, Truth(report)
    # Large and long, with users, and none that stays.
    index = max(range(len(rows)), key=lambda i: (rows[i]["is_persistent"] == "0" and rows[i]["user_tasks"] != "{}")
                * int(rows[i]["size"]) * (truth.blocks[i]["until"] - truth.blocks[i]["from"] if truth.blocks[i]["until"] < FOREVER else 0))
    row, block = rows[index], truth.blocks[index]
    with opened(report.folder) as page:
        left, top, bottom = page.run("const box = blockBox(arguments[0], picture.frame); return [box.left, box.top, box.bottom]", index)
        inner = page.run("return document.getElementById('blocks').clientWidth") - MARGIN_LEFT - MARGIN_RIGHT
        last = float(page.data("#chart")["to"])
        begin, end = (MARGIN_LEFT + time / last * inner for time in (block["from"], block["until"]))
        check(abs(left - begin) < 1, f"the block begins at {left}, want {begin}")
        scale = page.run("return (picture.frame.height - PLOT.top - PLOT.bottom) / view.high")
        check(abs((bottom - top) / scale - block["held"]) < 1, f"height {(bottom - top) / scale}, want {block['held']}")
        x, y = (begin + end) / 2, (top + bottom) / 2
        page.pointer("#blocks", ("move", x, y))
        page.wait("!document.getElementById('tip').hidden", "the tip")
        check_equal(page.data("#tip .head")["block"], str(index), "block under the pointer")
        tip = page.text("#tip")
        for text in (row["type"], row["node_name"], own_line(block), row["task_name"]):
            check(text in tip, f"{text} is not in the tip: {tip}")
        page.pointer("#blocks", ("move", x, y), ("down",), ("up",))
        page.wait("!document.getElementById('detail').hidden", "the pinned block")
        check_equal(page.data("#detail")["block"], str(index), "pinned block")
        fields = {item["field"]: item["value"] for item in page.all_data("#fields dd[data-value]")}
        check_equal(fields, {"size": row["size"], "start": row["start_time_stamp"], "held after": str(held_after(row))}, "fields")
        check(row["device_addr"] in page.text("#fields"), "the address is missing")
        check_equal([item["task"] for item in page.all_data("#users li[data-task]")], re.findall(r"\d+", row["user_tasks"]), "users")
        want = [f"{file}:{line} {function}" for file, line, function in reversed(frames_of(row["python_stack"]))]
        check_equal(page.texts("#detail .frames")[0], "".join(want), "stack")
        page.press("\ue00c")  # Escape
        page.wait("document.getElementById('detail').hidden", "nothing pinned")
        page.run("document.getElementById('blocks').focus()")
        page.press("n")
        page.wait("!document.getElementById('detail').hidden", "the largest block, by key")
        check_equal(rows[int(page.data("#detail")["block"])]["size"], max((row["size"] for row in rows), key=int), "size of the first by key")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_block_view_moves_with_the_pointer_and_zooms_with_the_wheel(context):
    report = context.traced(MLP)
    with opened(report.folder) as page:
        inner = page.run("return document.getElementById('blocks').clientWidth") - MARGIN_LEFT - MARGIN_RIGHT
        last, x = float(page.data("#chart")["to"]), MARGIN_LEFT + 0.25 * inner
        page.pointer("#blocks", ("move", x, 200))
        page.wheel("#blocks", x, 200, -300)
        settle(page)
        check_equal(page.data("#chart")["to"], page.run("return String(view.timeline.range('time')[1])"), "the end, without the focus")
        page.run("const canvas = document.getElementById('blocks'); canvas.focus(); canvas.scrollIntoView({block: 'center'})")
        page.wheel("#blocks", x, 200, -300)
        page.wait(f"Number(document.getElementById('chart').dataset.to) < {last}", "the zoom")
        settle(page)
        begin, end = (float(page.data("#chart")[name]) for name in ("from", "to"))
        pixel = (end - begin) / inner
        check(abs(begin + (x - MARGIN_LEFT) * pixel - last * 0.25) <= 2 * last / inner, f"{begin} to {end} keep not what was under the pointer")
        page.pointer("#blocks", ("move", x, 200), ("down",), ("move", x + 100, 200), ("up",))
        page.wait(f"Number(document.getElementById('chart').dataset.from) !== {begin}", "the move")
        settle(page)
        moved = float(page.data("#chart")["from"])
        check(abs(begin - 100 * pixel - moved) <= pixel, f"moved from {begin} to {moved}, want 100 pixels of {pixel}")
        check_equal(page.run("return document.getElementById('detail').hidden"), True, "a move pins nothing")
        page.pointer("#blocks", ("move", x, 200), ("down",), ("up",), ("down",), ("up",))
        page.wait(f"Number(document.getElementById('chart').dataset.to) === {last}", "all of it again")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_search_finds_the_rows_that_fit(context):
    report = context.traced(RECOMPUTE)
    rows, truth = report.rows, Truth(report)
    searches = {
        "module:layers.1": lambda row, block: "layers.1" in row["graph_name"] or (not row["graph_name"] and "layers.1" in (block["owner"] or "").rpartition(".")[0]),
        "operator:aten.mm": lambda row, block: "aten.mm" in row["node_name"],
        "operator:aten.mm.default$": lambda row, block: row["node_name"] == "aten.mm.default",
        "owner:exp_avg(": lambda row, block: "exp_avg(" in (block["owner"] or ""),
        "category:gradient": lambda row, block: row["type"] == "Gradient",
        "phase:recompute": lambda row, block: row["task_name"] == "recompute",
        "size>=16K": lambda row, block: int(row["size"]) >= 16384,
        "size>1K size<8K": lambda row, block: 1024 < int(row["size"]) < 8192,
        "persistent:yes": lambda row, block: row["is_persistent"] == "1",
        "held>20 phase:forward": lambda row, block: held_after(row) > 20 and row["task_name"] == "forward",
        "nothing-has-this-name": lambda row, block: False,
    }
    with opened(report.folder) as page:
        for text, fits in searches.items():
            page.type("#search", text)
            page.wait(f"document.getElementById('search').value === {json.dumps(text)}", "the text")
            page.run("search()")
            found = [int(row["size"]) for row, block in zip(rows, truth.blocks) if fits(row, block)]
            shown = page.data("#search-result")
            check_equal((int(shown["count"]), int(shown["bytes"])), (len(found), sum(found)), f"found by {text}")
            check(found or text.startswith("nothing"), f"the job has nothing for {text}")
        page.type("#search", "")
        page.click(".chip[data-token='persistent:yes']")
        page.wait("document.getElementById('search-result').dataset.count", "the result")
        persistent = [block for block in truth.blocks if block["is_persistent"]]
        check_equal(int(page.data("#search-result")["count"]), len(persistent), "found by the button")
        settle(page)
        check_equal(float(page.data("#chart")["highest"]), sum(block["held"] for block in persistent), "highest of what was found")
        page.type("#search", "size>many")
        page.wait("document.getElementById('search-result').textContent.includes('not understood')", "a search that makes no sense is told")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_instants_have_what_is_alive_and_their_difference(context):
    report = context.traced(MLP)
    truth = Truth(report)
    with opened(report.folder) as page:
        inner = page.run("return document.getElementById('chart').clientWidth") - MARGIN_LEFT - MARGIN_RIGHT
        totals = []
        for x, keys in ((MARGIN_LEFT + 0.3 * inner, ()), (MARGIN_LEFT + 0.8 * inner, ("\ue008",))):
            page.pointer("#chart", ("move", x, 120), ("down",), ("up",), keys=keys)
            page.wait(f"view.instants[{len(totals)}] !== null && view.instants[0] !== view.timeline.peakInstant()", "the instant")
            settle(page)
            time = page.run(f"return view.timeline.timeOf(view.instants[{len(totals)}])")
            pixel = float(page.data("#chart")["to"]) / inner
            clicked = (x - MARGIN_LEFT) * pixel
            check(time <= clicked + pixel, f"instant at {time}, clicked at {clicked}")
            between = [block for block in truth.blocks for edge in (block["from"], block["until"]) if time < edge < clicked - pixel]
            check(not between, f"instant at {time}, clicked at {clicked}, and {len(between)} changes between")
            totals.append(truth.alive(time))
        first, second = totals
        lines, then = truth.by(own_line, first), truth.by(own_line, second)
        want = {name: (lines[name], then[name] - lines[name]) for name in {*lines, *then}}
        check_equal({row["name"]: (int(row["bytes"]), int(row["more"])) for row in page.all_data("#alive tbody tr")}, want, "lines at both instants")
        shown, gone = page.data("#instant"), [block for block in first if block not in second]
        check_equal(int(shown["released"]), sum(block["held"] for block in gone), "bytes that are gone")
        check_equal(int(shown["more"]), sum(block["held"] for block in second) - sum(block["held"] for block in first), "difference")
        page.click("#instant-clear")
        page.wait("document.getElementById('instant-clear').hidden", "one instant")
        check_equal({row["name"]: int(row["bytes"]) for row in page.all_data("#alive tbody tr")}, dict(lines), "lines at the first instant")
        page.choose("#instant-group", "block")
        check_equal(sorted(int(row["bytes"]) for row in page.all_data("#alive tbody tr")), sorted(block["held"] for block in first)[-30:], "blocks")
        page.choose("#instant-group", "operator")
        page.click("#alive th button[data-key=name]")
        names = [row["name"] for row in page.all_data("#alive tbody tr")]
        check_equal(names, sorted(names), "order by name")
        areas = page.run("return [...document.querySelectorAll('#treemap button')].map(box => box.offsetWidth * box.offsetHeight)")
        sums, whole = sorted(truth.by(lambda block: block["node_name"], first).values(), reverse=True), sum(areas)
        for area, size in zip(areas, sums):
            check(abs(area / whole - size / sum(sums)) < 0.02, f"areas {areas} of the treemap, bytes {sums}")
        check_no_errors(page)


# --- findings ---------------------------------------------------------------------------------------

@test(timeout=TIMEOUT)
def test_findings_name_the_line_that_grows_and_the_one_that_is_dead(context):
    process = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--", PYTHON, program_path("growing"))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    want = json.loads(process.out.splitlines()[-1])
    file = program_path("growing")
    with opened(context.path("out")) as page:
        found = {item["finding"]: item for item in page.all_data("#finding-list > li")}
        check_equal(page.data("#finding-list li[data-finding=growth] li")["name"], f"{file}:{want['keep']}", "line that grows")
        check_equal(float(found["growth"]["bytes_per_step"]), want["bytes"], "bytes a step")
        check_equal((int(found["dead"]["bytes"]), int(found["dead"]["blocks"])), (want["dead_bytes"], 1), "dead bytes at the peak, and blocks")
        line = page.data("#finding-list li[data-finding=dead] li")
        check_equal(line["name"], f"{file}:{want['dead']}", "line of the dead block")
        rows = [row for row in context.report().rows if own_line({"python_stack": row["python_stack"]}) == line["name"]]
        check_equal(int(line["cost"]), sum(int(row["size"]) * held_after(row) for row in rows), "bytes × tasks")
        check_equal([item["id"] for item in page.all_data("#finding-list > li")], [one["id"] for one in context.report().json["findings"]],
                    "findings of the page and of the JSON")


@test(timeout=TIMEOUT)
def test_findings_do_not_speak_of_uses_that_were_not_looked_at(context):
    process = context.run(context.hdtrace, "run", "-q", "--level", "lite", "-o", context.path("out"), "--", PYTHON, program_path("growing"))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    with opened(context.path("out")) as page:
        check_equal([item["finding"] for item in page.all_data("#finding-list > li")], ["peak"], "findings at level lite")
        check_equal(page.run("return document.getElementById('tile-theory')"), None, "the peak after last uses")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_incomplete_trace_is_told_at_the_top(context):
    report = context.trace_run(program_path("loop"), "--steps", "300", "--pause", "0.01")
    with open(os.path.join(report.folder, "capture.hdt"), "rb") as source:
        data = source.read()
    with open(context.path("cut.hdt"), "wb") as out:
        out.write(data[:len(data) * 9 // 10])
    process = context.run(context.hdtrace, "report", context.path("cut.hdt"), "-o", context.path("cut"))
    check_equal(process.code, LOST, f"exit code of {process}")
    for folder, complete in ((report.folder, "true"), (context.path("cut"), "false")):
        with opened(folder) as page:
            check_equal(page.data("#complete")["complete"], complete, f"complete, of {folder}")
            check_equal(page.run("return document.getElementById('peak-incomplete').hidden"), complete == "true", "hidden: that it is incomplete")


@test(timeout=TIMEOUT)
def test_blocks_older_than_the_trace_have_their_category_for_a_line(context):
    job = context.trained("loop", "--steps", "100000", "--pause", "0.01")
    tracer = context.run(context.hdtrace, "-p", job.pid, "--steps", "3", "-q", "-o", context.path("out"))
    check_equal(tracer.code, COMPLETE, f"exit code of {tracer}")
    truth = Truth(context.report())
    time = truth.live["devices"]["cpu"]["peak"]["time_ns"] - truth.first
    older = truth.by(lambda block: block["type"], [block for block in truth.alive(time) if block["preexisting"]])
    check(older["Parameter"], f"older blocks at the peak: {older}")
    with opened(context.path("out")) as page:
        page.choose("#instant-group", "line")
        shown = {row["name"]: int(row["bytes"]) for row in page.all_data("#alive tbody tr") if row["name"].startswith("older")}
        check_equal(shown, {f"older than the trace: {name}": size for name, size in older.items()}, "older blocks at the peak")


@test(timeout=TIMEOUT)
def test_findings_are_silent_where_there_is_nothing(context):
    report = context.traced(MLP)
    with opened(report.folder) as page:
        found = {item["finding"] for item in page.all_data("#finding-list > li")}
        check("peak" in found and not found & {"growth", "out_of_memory", "imbalance", "unfinished", "fragmentation", "gradients", "dead"}, "findings:", found)


@test(root="cuda", device="cuda", timeout=TIMEOUT)
def test_exhausted_device_is_explained(context):
    process = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--",
                          *context.command(PYTHON, program_path("exhausting"), "--times", "2"),
                          environment={"STANDIN_CUDA_MEMORY_MB": "1024"})
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    report = context.report()
    truth, event = Truth(report), report.live["out_of_memory"][-1]
    with opened(context.path("out")) as page:
        device = truth.live["devices"]["cuda:0"]
        check_equal(int(page.data("#peak")["bytes"]), truth.json["devices"]["cuda:0"]["peak"]["Total"], "bytes of the peak")
        check_equal(int(page.data("#tile-reserved")["value"]), device["reserved_peak_bytes"], "held by the allocator")
        check_equal(page.run("return view.timeline.reserved().at(-1)[1]"), device["reserved_bytes"], "the end of its line")
        found = page.data("#finding-list li[data-finding=out_of_memory]")
        free = event["reserved_bytes"] - event["allocated_bytes"]
        check_equal((int(found["requested_bytes"]), int(found["free_bytes"]), int(found["largest_gap_bytes"])),
                    (event["requested_bytes"], free, event["largest_gap_bytes"]), "asked for, free, largest piece")
        check_equal(found["fragmented"], "0", "there was not enough in any number of pieces")
        text = page.text("#finding-list li[data-finding=out_of_memory]")
        for line in event["lines"]:
            check(f'{line["file_name"]}:{line["line_num"]}' in text, f"{line} is not named: {text}")
        page.type("#capacity", f"{truth.json['summary']['peak_bytes'] / 2 ** 30:.20f}")
        check_equal(page.data("#fit-answer")["verdict"], "tight", "the blocks fit, the allocator's pieces do not")
        check_no_errors(page)


# --- several ranks, strange names, other formats ------------------------------------------------------

@test(timeout=TIMEOUT)
def test_ranks_stand_side_by_side(context):
    process = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--device", "all", "--",
                          PYTHON, program_path("ranks"), "gloo", "2", timeout=100)
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    with open(context.path("out", "job.json"), encoding="utf-8") as source:
        job = json.load(source)
    with opened(context.path("out")) as page:
        check_equal(numbers(page, "#rank-table tbody tr", "rank", "peak", "wait"),
                    [(rank["rank"], rank["peak_bytes"], rank["wait_ns"]) for rank in job["ranks"]], "ranks")
        check_equal(int(page.data("#rank-note")["spread"]), job["peak"]["bytes"] - job["peak"]["lowest_bytes"], "spread")
        waits = []
        for rank in (0, 1):
            with open(context.path("out", f"rank_{rank}", f"rank_{rank}_collectives.csv"), newline="", encoding="utf-8") as source:
                rows = list(csv.DictReader(source))
            waits += [float(sum(int(row["wait_ns"]) for row in rows if row["last_rank"] == str(last) and row["wait_ns"])) for last in (0, 1)]
        shown = [float(item["value"]) for item in page.all_data("#wait-table tbody td.number")]
        check_equal(shown, waits, "who waits for whom")
        check(max(shown) > 1e8, f"nobody waited for the late rank: {shown}")
        check_equal(numbers(page, "#all-peaks button", "rank", "value"), [(rank["rank"], rank["peak_bytes"]) for rank in job["ranks"]],
                    "peaks of all ranks")
        for rank in (1, 0):
            report = Report(context.path("out"), rank)
            page.choose("#rank", str(rank))
            page.wait(f"view.rank.head.rank === {rank} && view.timeline && view.timeline.rank === view.rank && view.pending.size === 0", "the rank")
            check_equal(int(page.data("#peak")["bytes"]), max(device["Total"] for device in (
                devices["peak"] for devices in report.json["devices"].values())), f"peak of rank {rank}")
            check_equal(page.run("return view.rank.count"), len(report.rows), f"blocks of rank {rank}")
        check_no_errors(page)


@test(root="cuda", device="cuda", timeout=TIMEOUT)
def test_each_device_of_a_rank_is_shown(context):
    capture = os.path.join(context.traced(MLP).folder, "capture.hdt")
    process = context.run(context.hdtrace, "report", "-q", "--device", "all", capture, "-o", context.path("out"))
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    truth = Truth(context.report())
    devices = {name: values["peak"]["Total"] for name, values in truth.json["devices"].items() if values["peak"]["Total"]}
    check({"cpu", "cuda:0"} <= set(devices), "devices of the report:", devices)
    with opened(context.path("out")) as page:
        check_equal({item["device"]: int(item["value"]) for item in page.all_data("#all-peaks button")}, devices, "peaks")
        for name, size in devices.items():
            page.click(f"#all-peaks button[data-device='{name}']")
            page.wait(f"view.timeline && view.device.name === '{name}' && view.pending.size === 0", "the device")
            check_equal(int(page.data("#peak")["bytes"]), size, f"peak of {name}")
            mine = [block for block in truth.blocks if block["device"] == name]
            check_equal(page.run("return view.timeline.mine.length"), len(mine), f"blocks of {name}")
            check_equal(int(page.data("#tile-persistent")["value"]), sum(block["size"] for block in mine if block["is_persistent"]), f"persistent bytes of {name}")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_collective_that_never_finished_is_told(context):
    tracer = context.interrupted_run("late 0", PYTHON, program_path("late"), "gloo", 2, "never")
    wait_until(lambda: os.path.exists(context.path("out", "report.html")), lambda: f"the page of {tracer}", timeout=60)
    with open(context.path("out", "job.json"), encoding="utf-8") as source:
        job = json.load(source)
    for rank in job["ranks"]:
        os.kill(rank["pid"], 9)
    one = job["unfinished"][0]
    with opened(context.path("out")) as page:
        check_equal(page.data("#finding-list > li[data-finding=unfinished]")["ranks"], str(len(job["unfinished"])), "unfinished collectives")
        for selector in ("#collective-list li[data-kind=unfinished]", "#finding-list li[data-finding=unfinished]"):
            text = page.text(selector)
            for part in (f"rank {one['rank']} began {one['kind']} {one['sequence']}", f"rank {one['absent_rank']} never did",
                         f"rank {one['absent_rank']} stood at {job['ranks'][one['absent_rank']]['python_stack'][0]}"):
                check(part in text, f"{part} is not in {text}")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_ranks_that_need_different_amounts_are_told(context):
    """Where they do, by how much; nothing where they do not."""
    process = context.run(context.hdtrace, "run", "-q", "-o", context.path("out"), "--", "/bin/sh", "-c",
                          f"RANK=0 WORLD_SIZE=2 {PYTHON} {MLP} & RANK=1 WORLD_SIZE=2 {PYTHON} {RECOMPUTE} & wait", timeout=100)
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    peaks = [Report(context.path("out"), rank).json["summary"]["peak_bytes"] for rank in (0, 1)]
    with opened(context.path("out")) as page:
        found = page.data("#finding-list > li[data-finding=imbalance]")
        check_equal(int(found["bytes"]), max(peaks) - min(peaks), "difference")
        check_equal(int(page.data("#peak")["bytes"]), max(peaks), "the rank that is shown first")


@test(timeout=TIMEOUT)
def test_hostile_names_are_text(context):
    report = context.trace_run(program_path("hostile_names"))
    names = {row["file_name"] for row in report.rows} | {row["graph_name"] for row in report.rows}
    wanted = [name for name in names if "<img" in name or "</script>" in name]
    check(len(wanted) >= 3, "the job has no hostile names:", names)
    with open(os.path.join(report.folder, "report.html"), encoding="utf-8") as source:
        text = source.read()
    check("hacked" not in text, "a name stands in the file as it is")
    with opened(report.folder) as page:
        seen = set()
        for kind in ("line", "innermost", "module", "operator", "owner", "block"):
            page.choose("#instant-group", kind)
            seen |= {row["name"] for row in page.all_data("#alive tbody tr")}
            if kind != "block":
                page.choose("#group", kind)
                settle(page)
        for index in range(len(report.rows)):
            page.run("pin(arguments[0]); drawDetail()", index)
        for name in wanted:
            check(any(name in text for text in seen), f"{name} is not shown as it is: {sorted(seen)}")
        check_equal(page.run("return document.querySelectorAll('img').length"), 0, "images in the page")
        check_equal(page.data("html").get("hacked"), None, "something of the target ran")
        check_no_errors(page)


@test(timeout=TIMEOUT)
def test_odd_names_are_found_by_search(context):
    report = context.trace_run(os.path.join(JOBS, "odd_names.py"))
    with opened(report.folder) as page:
        for name in ("größe.py", "训练.py", "a,comma.py"):
            page.type("#search", f"innermost:{name}")
            page.run("search()")
            check_equal(int(page.data("#search-result")["count"]), sum(row["file_name"].endswith(name) for row in report.rows), f"blocks of {name}")


@test(timeout=TIMEOUT)
def test_page_follows_the_system_and_its_button_in_light_and_dark(context):
    report = context.traced(MLP)
    with opened(report.folder) as page:
        check_equal(page.data("html")["theme"], "light", "theme")
        ground = page.run("return getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        check_equal(page.data("html")["theme"], "dark", "theme after the button")
        check(page.run("return getComputedStyle(document.body).backgroundColor") != ground, "the ground is the same")
    with opened(report.folder, dark=True) as page:
        check_equal(page.data("html")["theme"], "dark", "theme of a dark system")


@test
def test_html_alone_is_one_file(context):
    report = context.traced(MLP)
    capture = os.path.join(report.folder, "capture.hdt")
    process = context.run(context.hdtrace, "report", capture, "-o", context.path("again"), "--format", "html")
    check_equal(process.code, COMPLETE, f"exit code of {process}")
    files = [name for _, _, names in os.walk(context.path("again")) for name in names]
    check_equal(files, ["report.html"], "files")
    with open(context.path("again", "report.html"), "rb") as again, open(os.path.join(report.folder, "report.html"), "rb") as first:
        check(again.read() == first.read(), "the same capture gives another page")


@test(timeout=TIMEOUT)
def test_job_without_memory_has_a_page_that_says_so(context):
    process = context.program("loop", "--steps", "1000", "--pause", "0.01")
    context.wait_steps(process, 2)
    tracer = context.run(context.hdtrace, "-p", process.pid, "-d", "0.5", "-q", "--device", "npu", "-o", context.path("out"))
    wait_until(lambda: tracer.code is not None, "the end of the trace")
    with opened(context.path("out")) as page:
        check("No memory was seen on rank 0" in page.text("#status"), "the page says:", page.text("#status"))
        check_equal(page.run("return document.getElementById('peak').hidden"), True, "no peak is shown")
        check(page.texts("#limitations li"), "no limitations")
