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
from napari_gsw.core.pipeline.segment import segment, simulate_prior, warm_up
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.shared_result import SharedResult
from napari_gsw.core.presets import PRESETS, preset
from napari_gsw.core.sampler.sample import run, sample
from napari_gsw.core.sampler.snapshot import Snapshot, State
from napari_gsw.core.settings import Settings
from napari_gsw.core.versions import own_version

__version__ = own_version()

__all__ = [
    "PRESETS",
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
    "Settings",
    "SharedProblem",
    "SharedResult",
    "Snapshot",
    "State",
    "TablePrior",
    "__version__",
    "log_posterior",
    "prepare",
    "preset",
    "run",
    "sample",
    "segment",
    "simulate_prior",
    "warm_up",
]
