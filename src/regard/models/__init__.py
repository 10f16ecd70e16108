"""Model architectures, one file each. CONTRIBUTING.md lists the steps to add another."""

from regard.models.architecture import ARCHITECTURES as ARCHITECTURES
from regard.models.architecture import Architecture as Architecture
from regard.models.architecture import ModelSpec as ModelSpec
from regard.models.architecture import Sizes as Sizes
from regard.models.base import ClassificationModel as ClassificationModel
from regard.models.base import LanguageModel as LanguageModel
from regard.models.base import Model as Model
from regard.models.base import Term as Term
from regard.models.base import TranslationModel as TranslationModel
from regard.models.config import ModelConfig as ModelConfig
from regard.models.defaults import Defaults as Defaults
from regard.models.defaults import Situation as Situation
from regard.models.pretraining import PretrainedConfig as PretrainedConfig
from regard.models.pretraining import PretrainingModel as PretrainingModel
from regard.models.pretraining import Reading as Reading
from regard.models.sites import attention_sites as attention_sites
from regard.models.sites import model_sites as model_sites
from regard.models.transformer import PRESETS as PRESETS
from regard.models.transformer import Transformer as Transformer
from regard.models.transformer import TransformerConfig as TransformerConfig
from regard.models.weights import load_weights as load_weights
from regard.models.weights import named_weights as named_weights
from regard.models.weights import require_matching_tensor as require_matching_tensor
from regard.models.weights import require_matching_tensors as require_matching_tensors
from regard.models.weights import write_tensors as write_tensors
