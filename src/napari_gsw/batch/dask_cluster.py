"""A batch on a Dask cluster: an existing one, or one of processes on this machine.

Tasks hold paths and return records: the workers read and write the files, and need the same file system. Dask gives
the tasks of a worker that dies to another one. Dask is imported only when a cluster is asked for.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

from napari_gsw.batch import images
from napari_gsw.batch.interruption import ignore_signals
from napari_gsw.batch.jobs import WORKER_DIED, Answers, BatchOptions, Engine, Failure, Work, catch_errors, make_failure
from napari_gsw.core.errors import InputError
from napari_gsw.core.versions import DEPENDENCIES, package_version

LOCAL = "local"
LOOPBACK = "127.0.0.1"
TIMEOUT = 8.0  # seconds to wait for a scheduler
MAX_SUBMITTED = 1000  # images that the scheduler knows of at a time
# For a local cluster. A worker holds one image at a time, since Dask suspects all tasks of a worker that dies. Dask
# does not give up a worker that is about to restart when it looks after it, so long after its death.
CONFIGURATION = {"distributed.scheduler.worker-saturation": 1.0, "distributed.deploy.lost-worker-timeout": "1000 days"}
INSTALL = 'pip install "napari-gsw[batch]"'


@contextmanager
def cluster_engine(options: BatchOptions) -> Iterator[Engine]:
    """Open an engine that runs jobs on a cluster."""
    try:
        import distributed
    except ImportError:
        raise InputError(f"a scheduler needs Dask, which is missing; try: {INSTALL}") from None
    with ExitStack() as stack:
        stack.enter_context(distributed.utils.silence_logging_cmgr(logging.CRITICAL))  # errors are reported here
        if options.scheduler == LOCAL:
            address = stack.enter_context(_start_local_cluster(options.jobs, options.dashboard))
        else:
            address = _find_scheduler(str(options.scheduler))
        try:
            with warnings.catch_warnings():  # different versions are reported by `_check_versions`
                warnings.simplefilter("ignore")
                client = stack.enter_context(distributed.Client(address, timeout=TIMEOUT, set_as_default=False))
        except Exception as error:
            raise InputError(f"cannot connect to the Dask scheduler at {address!r}: {error}") from None
        remarks = _check_versions(client)
        if not client.nthreads():
            remarks.append(f"the scheduler at {address} has no worker yet; waiting for one (dask worker {address})")
        if options.quiet:
            remarks = []
        if options.dashboard:
            try:
                client.run_on_scheduler(version, "bokeh")
                link = client.dashboard_link
                remarks.append(f"dashboard: {link}" if link else "there is no dashboard: the scheduler has none")
            except Exception:
                remarks.append("there is no dashboard: the scheduler has no bokeh; try there: pip install bokeh")
        for text in remarks:
            print(f"napari-gsw: {text}", file=sys.stderr)
        yield partial(_run_on_cluster, client, distributed)


@contextmanager
def _start_local_cluster(workers: int, dashboard: bool) -> Iterator[str]:
    """Start a cluster of processes of one thread each, and yield its address."""
    import dask
    import distributed

    with (
        dask.config.set(CONFIGURATION),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # a large image is no reason to kill a worker: the system does that when it must
            # Any free port: even without a dashboard the scheduler would take Dask's own, which may be in use. And for
            # this machine only, since whoever reaches a scheduler can run anything.
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:0",
            scheduler_kwargs={} if dashboard else {"dashboard": False},
            silence_logs=logging.CRITICAL,
            preload=[__name__],
        ) as cluster,
    ):
        yield str(cluster.scheduler_address)


def dask_setup(worker: Any) -> None:
    """Set up a process of a local cluster; called by Dask."""
    ignore_signals()


def _find_scheduler(scheduler: str) -> str:
    """Return the address of a scheduler, which may be given as its file, if it answers.

    Dask's own client waits for ever at a port where something else listens, such as the dashboard.
    """
    from distributed import Security
    from distributed.comm import connect

    address = scheduler
    if os.path.isfile(scheduler):
        try:
            address = str(json.loads(Path(scheduler).read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{scheduler!r} is no scheduler file of Dask; give its address, tcp://HOST:PORT") from None

    async def connect_once() -> None:
        arguments = Security().get_connection_args("client")
        comm = await asyncio.wait_for(connect(address, timeout=TIMEOUT, **arguments), TIMEOUT + 1)
        await comm.close()

    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook has an event loop in this thread
            thread.submit(lambda: asyncio.run(connect_once())).result()
    except ValueError as error:
        raise InputError(f"the scheduler's address must be like tcp://HOST:8786, not {scheduler!r}: {error}") from None
    except Exception:  # what listens there may answer anything
        raise InputError(
            f"no Dask scheduler answers at {scheduler!r}; start one with: dask scheduler, and give the address that it "
            "prints (not that of its dashboard)"
        ) from None
    return address


def _check_versions(client: Any) -> list[str]:
    """Refuse workers with another version of napari-gsw; return remarks on other versions of what its numbers use."""
    remarks = []
    for name in ("napari-gsw", *DEPENDENCIES):
        expected = package_version() if name == "napari-gsw" else version(name)
        # `version` is of the standard library: a worker without our package can call it, too.
        for worker, installed in client.run(version, name, on_error="return").items():
            actual = "not installed" if isinstance(installed, PackageNotFoundError) else str(installed)
            if actual != expected and name == "napari-gsw":
                raise InputError(
                    f"the worker at {worker} has another napari-gsw ({actual}, not {expected}); "
                    f"on every machine: {INSTALL}"
                )
            if actual != expected:
                text = f"the worker at {worker} has {name} {actual}, not {expected}: labels may differ from local ones"
                remarks.append(text)
    return remarks


def _run_on_cluster(client: Any, distributed: Any, work: Work, jobs: Mapping[str, images.ImageTask]) -> Answers:
    """Run jobs on a cluster; with fewer images than threads, each chain of an image is a task of its own."""
    from distributed.scheduler import KilledWorker

    threads = sum(client.nthreads().values())
    names: dict[Any, str] = {}
    queue = iter(jobs.items())
    futures = distributed.as_completed(loop=client.loop)

    def submit(count: int) -> None:
        for name, task in islice(queue, count):
            if len(jobs) < threads and task.has_separable_chains():
                # In steps; a failure of one is passed on to the last.
                prepared = _submit(client, "prepare", images.prepare_image, task)
                chains = range(task.spec.choice.settings.chains)
                runs = [_submit(client, "sample", images.run_chain, task, prepared, number) for number in chains]
                future = _submit(client, "conclude", images.conclude_image, task, prepared, *runs)
            else:
                future = _submit(client, "segment", work, task)
            names[future] = name
            futures.add(future)

    gone = f"the Dask scheduler at {client.scheduler.address} is gone; start it again and continue with --resume"
    try:
        submit(MAX_SUBMITTED)
        for future in futures:
            # The worker that held the record has died, and Dask computes it again. If the scheduler is gone, futures
            # are cancelled instead.
            if future.status in ("lost", "pending") and client.status == "running":
                futures.add(future)
                continue
            if future.status not in ("finished", "error"):
                raise InputError(gone)
            try:
                answer = future.result()  # waits if the worker has just died, until the record is computed again
            except KilledWorker:
                answer = Failure(WORKER_DIED, True)
            except CancelledError:
                raise InputError(gone) from None
            except Exception as error:
                answer = make_failure(error)
            name = names.pop(future)
            submit(1)
            yield name, answer
    finally:
        if names:
            with suppress(Exception):  # the scheduler may be gone
                client.cancel(list(names))


def _submit(client: Any, title: str, work: Callable[..., Any], *values: Any) -> Any:
    return client.submit(catch_errors, work, *values, key=f"{title}-{uuid.uuid4().hex}", pure=False)
