"""The equations of `elmo.model` made fast: the same signature and the same numbers as the readable reference there.

Under `torch.autocast` the matrix products run in its data type (bfloat16); everything between them stays in float32.
"""

from elmo.ops.convolution import convolve_max as convolve_max
from elmo.ops.lstm import Clips as Clips
from elmo.ops.lstm import bi_lstm as bi_lstm
from elmo.ops.softmax import softmax_loss as softmax_loss
