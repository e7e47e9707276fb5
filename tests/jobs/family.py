"""Data-parallel training by several processes, started in one of the ways in which launchers do it.

    family.py HOW RANKS STEPS [--workers]

HOW: exec (a program each, as a shell loop), spawn, fork (torch.multiprocessing), torchrun. With --workers, each
rank loads its data by two processes of a DataLoader. STEPS 0: until it is killed. Each rank prints its pid first.
"""
import os
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as distributed

FEATURES = 64


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((FEATURES,), float(index))


def batches(workers):
    if not workers:
        while True:
            yield torch.randn(8, FEATURES)
    while True:
        yield from torch.utils.data.DataLoader(Samples(), batch_size=8, num_workers=workers)


def train(rank, size, steps, workers):
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    print(f"rank {rank} pid {os.getpid()}", flush=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(FEATURES, FEATURES), torch.nn.ReLU(), torch.nn.Linear(FEATURES, 1)))
    optimizer = torch.optim.AdamW(model.parameters())
    for step, batch in enumerate(batches(workers)):
        if step == steps and steps:
            break
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}", flush=True)
        time.sleep(0.02)
    distributed.barrier()


def train_from_environment(steps, workers):
    train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), steps, workers)


def launch_programs(arguments, ranks):
    programs = [subprocess.Popen([sys.executable, __file__, "rank", *arguments], env={
        **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}) for rank in range(ranks)]
    return max(abs(program.wait()) for program in programs)


def launch_torchrun(arguments, ranks):
    from torch.distributed.elastic.multiprocessing import api
    if torch.__version__.startswith("1."):
        # PyTorch 1.13 iterates over a flag, which CPython 3.11 does differently.
        names = {"0": api.Std.NONE, "1": api.Std.OUT, "2": api.Std.ERR, "3": api.Std.ALL}
        api.Std.from_str = classmethod(lambda cls, text: names[text])
    import torch.distributed.run as torchrun
    torchrun.main(["--nproc_per_node", str(ranks), "--master_addr", "127.0.0.1", "--master_port",
                   os.environ["MASTER_PORT"], __file__, "rank", *arguments])
    return 0


def launch(how, ranks, steps, workers):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), USE_LIBUV="0", GLOO_SOCKET_IFNAME="lo",
                      OMP_NUM_THREADS="1")
    arguments = [str(steps), str(workers)]
    if how == "exec":
        return launch_programs(arguments, ranks)
    if how == "torchrun":
        return launch_torchrun(arguments, ranks)
    torch.multiprocessing.start_processes(train, (ranks, steps, workers), nprocs=ranks, start_method=how)
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        train_from_environment(int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(launch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 2 if "--workers" in sys.argv else 0))
