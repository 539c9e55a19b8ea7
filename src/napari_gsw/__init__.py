"""Bayesian image segmentation with the generalized Swendsen-Wang sampler.

>>> import napari_gsw as gsw
>>> gsw.DirichletProcess(alpha=3).expected_clusters(1099)  # doctest: +ELLIPSIS
18.2...
"""

from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.codebook import Codebook
from napari_gsw.core.evidence.likelihoods import DirichletMultinomial, Gaussian
from napari_gsw.core.model.priors import DirichletProcess, FiniteDirichlet, PitmanYor, Potts, TablePrior
from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.model.shared_problem import SharedProblem
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.replay import replay
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.core.pipeline.saved_session import SavedImage, SavedSession
from napari_gsw.core.pipeline.segment import resume, segment, simulate_prior, warm_up
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.shared_result import SharedResult
from napari_gsw.core.presets import PRESETS, preset
from napari_gsw.core.sampler.sample import run, sample
from napari_gsw.core.sampler.snapshot import Snapshot, State
from napari_gsw.core.settings import Settings
from napari_gsw.core.versions import own_version
from napari_gsw.files.autosave import Autosave
from napari_gsw.files.session_file import open_session, save_session

__version__ = own_version()

__all__ = [
    "PRESETS",
    "Autosave",
    "Codebook",
    "DirichletMultinomial",
    "DirichletProcess",
    "FiniteDirichlet",
    "Gaussian",
    "InputError",
    "PitmanYor",
    "Potts",
    "Problem",
    "Result",
    "SavedImage",
    "SavedRun",
    "SavedSession",
    "Settings",
    "SharedProblem",
    "SharedResult",
    "Snapshot",
    "State",
    "TablePrior",
    "__version__",
    "log_posterior",
    "open_session",
    "prepare",
    "preset",
    "replay",
    "resume",
    "run",
    "sample",
    "save_session",
    "segment",
    "simulate_prior",
    "warm_up",
]
