"""Blocks of a device's caching allocator, made and freed in every way that it has.

    device_blocks.py [--rounds N] [--pause SECONDS] [--history FILE] KIND ...

Does a step of each KIND in turn, N times (2), with a pause after each. After a
step it prints one JSON line: the time, and what the allocator says of each
device; the peak is that since the line before. With --history it writes what
the allocator recorded of itself: for each device a list of [action, size,
stream, address], streams and addresses as numbers in order of appearance.
"""
import argparse
import json
import threading
import time

import torch

MEBIBYTE = 1 << 20


def tensor(count, device="cuda", dtype=torch.uint8):
    return torch.empty(count, dtype=dtype, device=device)


def caching():
    """Small blocks that share segments, freed out of order and given out again."""
    kept = [tensor(size) for size in (1, 511, 512, 513, 4000, 100_000)]
    del kept[1], kept[2]
    kept += [tensor(size) for size in (600, 100, 2000)]
    kept.clear()
    return tensor(777)


def splitting():
    """Large blocks: parts of a segment, one with a rest that is too small to split off, one of its own."""
    first = [tensor(3 * MEBIBYTE) for _ in range(4)]
    del first[1:3]
    return first, tensor(11 * MEBIBYTE), tensor(19 * MEBIBYTE + 5), tensor(MEBIBYTE + 1)


def streams():
    """Blocks of another stream, and one that both use: it is given back when the other is done with it."""
    side = torch.cuda.Stream()
    shared = tensor(2000)
    with torch.cuda.stream(side):
        own = tensor(3000)
        shared.record_stream(side)
        other = shared + 1
    del shared, own
    again = tensor(2000)
    torch.cuda.synchronize()
    return again, other


def graphs():
    """A captured graph has a pool of its own, which lives as long as the graph."""
    source = tensor(4096, dtype=torch.float32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (source * 2).relu() + 1
    graph.replay()
    torch.cuda.synchronize()
    del result
    return tensor(100), graph


def emptying():
    """What is cached goes back to the device; what is used stays."""
    kept = tensor(5 * MEBIBYTE)
    del kept
    torch.cuda.empty_cache()
    return tensor(2 * MEBIBYTE)


def devices():
    """Two devices in turns."""
    first, second = tensor(5000, "cuda:0"), tensor(7000, "cuda:1")
    third = first.to("cuda:1")
    del first
    return second, third, tensor(64, "cuda:0")


def resizing():
    """Storages that lose their memory and get another one."""
    kept = tensor(30_000)
    kept.untyped_storage().resize_(0)
    kept.untyped_storage().resize_(60_000)
    return kept


def pinning():
    """Pinned host memory; what stays on the device is a copy of it."""
    pinned = torch.ones(5000).pin_memory()
    return pinned.to("cuda", non_blocking=True) + torch.ones(3000)[:1].to("cuda")


def sharing():
    """Graphs that share a pool, one with a side stream; they are gone before what they gave is."""
    pool, side, source = torch.cuda.graph_pool_handle(), torch.cuda.Stream(), tensor(4096, dtype=torch.float32)
    captured, results = [], []
    for factor in (2, 3):
        captured.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(captured[-1], pool=pool):
            between = source * factor
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                results.append((between + 1).expand(3, 4096).contiguous())
                between.record_stream(side)
            torch.cuda.current_stream().wait_stream(side)
            del between
    for graph in captured + captured[::-1]:
        graph.replay()
    torch.cuda.synchronize()
    captured.clear()
    torch.cuda.empty_cache()
    return results


def pools():
    """A pool of the program's own, which is gone before its blocks are."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        first, second = tensor(3 * MEBIBYTE), tensor(100)
    between = tensor(5 * MEBIBYTE)
    with torch.cuda.use_mem_pool(pool):
        del first
        third = tensor(2 * MEBIBYTE)
    return second, between, third


def threads():
    """Each with a stream, one after the other, so that two runs are alike."""
    kept = []

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            own = [tensor(1000 * number + 512 * count) for count in range(20)]
            kept.append(own[::2])
    for number in range(1, 4):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
    return kept


def retrying():
    """The device has no more: what is cached goes back to it, then there is some; and once more there is none."""
    large = tensor(2048 * MEBIBYTE)
    cached = [tensor(256 * MEBIBYTE) for _ in range(6)]
    del cached
    enough = tensor(1024 * MEBIBYTE)
    try:
        tensor(2048 * MEBIBYTE)
    except torch.cuda.OutOfMemoryError:
        del large, enough
        torch.cuda.empty_cache()
        return tensor(MEBIBYTE)
    raise AssertionError("there was memory")


KINDS = {function.__name__: function for function in (
    caching, splitting, streams, graphs, emptying, devices, resizing, pinning, sharing, pools, threads, retrying)}


def numbered(numbers, value):
    return numbers.setdefault(value, len(numbers))


def history():
    """What the allocator recorded, of blocks only."""
    found = []
    for trace in torch.cuda.memory._snapshot()["device_traces"]:
        addresses, side_streams = {}, {0: 0}
        found.append([[entry["action"], entry["size"], numbered(side_streams, entry["stream"]),
                       numbered(addresses, entry["addr"])]
                      for entry in trace if entry["action"] in ("alloc", "free_requested")])
    return found


def state():
    found = []
    for device in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(device)
        found.append({name: stats[f"{key}.all.{moment}"]
                      for name, key, moment in (("allocated", "allocated_bytes", "current"),
                                                ("peak", "allocated_bytes", "peak"),
                                                ("count", "allocation", "current"),
                                                ("counted", "allocation", "allocated"),
                                                ("reserved", "reserved_bytes", "current"),
                                                ("segments", "segment", "current"))})
        found[-1]["exhausted"] = stats["num_ooms"]
        torch.cuda.reset_peak_memory_stats(device)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--history")
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    options = parser.parse_args()
    torch.cuda.init()
    if options.history:
        torch.cuda.memory._record_memory_history(stacks="python")
    kept = {}
    for kind in options.kinds * options.rounds:
        kept[kind] = KINDS[kind]()
        print(json.dumps({"step of": kind, "time_ns": time.monotonic_ns(), "devices": state()}), flush=True)
        time.sleep(options.pause)
    if options.history:
        with open(options.history, "w", encoding="utf-8") as out:
            json.dump(history(), out)


main()
