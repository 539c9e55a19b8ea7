"""A batch on a Dask cluster: one that is there already, or one of this machine's processes.

Tasks carry paths and bring back rows: the workers read and write the files, so they need the same file system. Dask
itself gives the tasks of a worker that dies to another one. Nothing but this module knows Dask, and it loads it only
when a cluster is asked for.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

from napari_gsw.batch.images import ImageTask, conclude_image, has_separable_chains, prepare_image, run_chain
from napari_gsw.batch.interruption import ignore_signals
from napari_gsw.batch.jobs import WORKER_DIED, Engine, Failure, Record, Work, catch_errors, program_error
from napari_gsw.batch.spec import BatchOptions
from napari_gsw.core.errors import InputError
from napari_gsw.core.versions import DEPENDENCIES, package_version

LOCAL = "local"
LOOPBACK = "127.0.0.1"
TIMEOUT = 8.0  # seconds to wait for a scheduler
AHEAD = 1000  # images that the scheduler knows of at a time
# Of a cluster of our own. A worker holds one image at a time: Dask suspects all that a worker holds when it dies. And a
# worker that is about to come back when Dask looks after it, so long after its death, is not given up.
CONFIGURATION = {"distributed.scheduler.worker-saturation": 1.0, "distributed.deploy.lost-worker-timeout": "1000 days"}
INSTALL = 'pip install "napari-gsw[batch]"'


@contextmanager
def cluster_engine(options: BatchOptions) -> Iterator[Engine]:
    """What does jobs on a cluster, for as long as one is connected with it."""
    distributed = _dask_package()
    with ExitStack() as stack:
        stack.enter_context(distributed.utils.silence_logging_cmgr(logging.CRITICAL))  # what matters we say ourselves
        address = str(options.scheduler)
        if address == LOCAL:
            address = stack.enter_context(_own_cluster(options.jobs, options.dashboard))
        else:
            address = _scheduler_address(address)
        client = stack.enter_context(_client(address))
        _check_versions(client, options.quiet)
        if options.dashboard:
            _remark(_dashboard_remark(client))
        if not options.quiet and not client.nthreads():
            _remark(f"the scheduler at {address} has no worker yet; waiting for one (dask worker {address})")
        yield partial(_run_on_cluster, client, distributed)


def _dask_package() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError(f"a scheduler needs Dask, which is missing; try: {INSTALL}") from None
    return distributed


def _remark(text: str) -> None:
    print(f"napari-gsw: {text}", file=sys.stderr)


@contextmanager
def _own_cluster(workers: int, dashboard: bool) -> Iterator[str]:
    """A cluster of processes on this machine, one thread each; its address."""
    import dask

    with (
        dask.config.set(CONFIGURATION),
        _dask_package().LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # a large image is no reason to kill a worker: the system does that when it must
            # Any free port: even without a dashboard the scheduler would take Dask's own, which another one may have.
            # And only for this machine: who reaches a scheduler can run anything.
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:0",
            scheduler_kwargs={} if dashboard else {"dashboard": False},
            silence_logs=logging.CRITICAL,
            preload=[__name__],
        ) as cluster,
    ):
        yield str(cluster.scheduler_address)


def dask_setup(worker: Any) -> None:
    """Dask calls this in each process of our own cluster."""
    ignore_signals()


def _scheduler_address(scheduler: str) -> str:
    """The address of a scheduler that answers as one; `scheduler` may also be the file that it has written.

    Dask's own client waits for ever at a port where something else listens, such as that of the dashboard.
    """
    from distributed import Security
    from distributed.comm import connect

    address = scheduler
    if os.path.isfile(scheduler):
        try:
            address = str(json.loads(Path(scheduler).read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{scheduler!r} is no scheduler file of Dask; give its address, tcp://HOST:PORT") from None

    async def shake_hands() -> None:
        arguments = Security().get_connection_args("client")
        comm = await asyncio.wait_for(connect(address, timeout=TIMEOUT, **arguments), TIMEOUT + 1)
        await comm.close()

    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook has a loop of its own in this one
            thread.submit(lambda: asyncio.run(shake_hands())).result()
    except ValueError as reason:
        raise InputError(f"the scheduler's address must be like tcp://HOST:8786, not {scheduler!r}: {reason}") from None
    except Exception:  # what listens there may answer anything at all
        raise InputError(
            f"no Dask scheduler answers at {scheduler!r}; start one with: dask scheduler, and give the address that it "
            "prints (not that of its dashboard)"
        ) from None
    return address


@contextmanager
def _client(address: str) -> Iterator[Any]:
    try:
        with warnings.catch_warnings():  # differing versions are told of in one line, by ourselves
            warnings.simplefilter("ignore")
            client = _dask_package().Client(address, timeout=TIMEOUT, set_as_default=False)
    except Exception as reason:
        raise InputError(f"the Dask scheduler at {address!r} cannot be talked to: {reason}") from None
    with client:
        yield client


def _check_versions(client: Any, quiet: bool) -> None:
    """The same package everywhere; other versions of what its numbers depend on are worth a remark."""
    for name in ("napari-gsw", *DEPENDENCIES):
        expected = package_version() if name == "napari-gsw" else version(name)
        # A function of the standard library: a worker without our package can call it too.
        for worker, installed in client.run(version, name, on_error="return").items():
            actual = "not installed" if isinstance(installed, PackageNotFoundError) else str(installed)
            if actual == expected:
                continue
            if name == "napari-gsw":
                raise InputError(
                    f"the worker at {worker} has another napari-gsw ({actual}, not {expected}); "
                    f"on every machine: {INSTALL}"
                )
            if not quiet:
                difference = f"the worker at {worker} has {name} {actual}, not {expected}"
                _remark(f"{difference}: labels may differ from those made here")


def _dashboard_remark(client: Any) -> str:
    """Where the dashboard is, or why there is none."""
    try:
        client.run_on_scheduler(version, "bokeh")
        link = client.dashboard_link
    except Exception:
        return "there is no dashboard: bokeh is not installed where the scheduler runs; try: pip install bokeh"
    return f"dashboard: {link}" if link else "there is no dashboard: the scheduler was started without one"


def _run_on_cluster(
    client: Any, distributed: Any, work: Work, jobs: Mapping[str, ImageTask]
) -> Generator[tuple[str, Record | Failure]]:
    """The row of each job, or why it has none, as they come.

    When there are fewer images than threads to work on them, each chain of an image is a task of its own.
    """
    threads = sum(client.nthreads().values())
    names: dict[Any, str] = {}
    queue = iter(jobs.items())
    futures = distributed.as_completed(loop=client.loop)

    def hand_out(count: int) -> None:
        for name, task in islice(queue, count):
            apart = len(jobs) < threads and has_separable_chains(task)
            future = _submit_chains(client, task) if apart else _submit(client, "segment", work, task)
            names[future] = name
            futures.add(future)

    try:
        hand_out(AHEAD)
        for future in futures:
            if _is_lost(future, client):  # the worker that held the row has died, and Dask makes it again
                futures.add(future)
                continue
            record_or_failure = _row_or_failure(future, client)
            name = names.pop(future)
            hand_out(1)
            yield name, record_or_failure
    finally:
        if names:
            with suppress(Exception):  # of a scheduler that is gone
                client.cancel(list(names))


def _submit_chains(client: Any, task: ImageTask) -> Any:
    """The future of an image in three steps; what the last one gives is that of all: a failure goes through to it."""
    prepared = _submit(client, "prepare", prepare_image, task)
    chains = range(task.choice.settings.chains)
    runs = [_submit(client, "sample", run_chain, task, prepared, number) for number in chains]
    return _submit(client, "conclude", conclude_image, task, prepared, *runs)


def _submit(client: Any, title: str, work: Callable[..., Any], *values: Any) -> Any:
    """The future of some work, under a key that tells what it is."""
    return client.submit(catch_errors, work, *values, key=f"{title}-{uuid.uuid4().hex}", pure=False)


def _is_lost(future: Any, client: Any) -> bool:
    """Whether a row that was there has gone with its worker. When the scheduler goes, futures are cancelled instead."""
    return future.status in ("lost", "pending") and client.status == "running"


def _row_or_failure(future: Any, client: Any) -> Record | Failure:
    """What a future that has ended gave."""
    from distributed.scheduler import KilledWorker

    gone = f"the Dask scheduler at {client.scheduler.address} is gone; start it again and go on with --resume"
    if future.status not in ("finished", "error"):
        raise InputError(gone)
    try:
        # Waits, if the worker that held the row has just died, until it has been made again.
        record_or_failure: Record | Failure = future.result()
        return record_or_failure
    except KilledWorker:
        return Failure(WORKER_DIED, True)
    except CancelledError:
        raise InputError(gone) from None
    except Exception as reason:
        return program_error(reason)
