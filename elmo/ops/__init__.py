"""Fast versions of the equations in `elmo.model`, with the signatures and results of that readable reference.

Under `torch.autocast`, matrix products run in its data type (bfloat16); everything else stays in float32.
"""

from elmo.ops.captured import Launch as Launch
from elmo.ops.captured import capture as capture
from elmo.ops.captured import new_pool as new_pool
from elmo.ops.compiled import can_compile as can_compile
from elmo.ops.compiled import compiled_steps as compiled_steps
from elmo.ops.convolution import convolve_max as convolve_max
from elmo.ops.convolution import pack_windows as pack_windows
from elmo.ops.elementwise import sigmoid_ as sigmoid_
from elmo.ops.first_calls import make_first_calls
from elmo.ops.fused import WIDEST_ROW as WIDEST_ROW
from elmo.ops.fused import read_lstm as read_lstm
from elmo.ops.fused import sampled_loss as sampled_loss
from elmo.ops.gru import bi_gru as bi_gru
from elmo.ops.highway_lstm import highway_lstm as highway_lstm
from elmo.ops.lstm import bi_lstm as bi_lstm
from elmo.ops.packed_lstm import Clips as Clips
from elmo.ops.packed_lstm import PackedLstm as PackedLstm
from elmo.ops.packed_lstm import pack_lstm as pack_lstm
from elmo.ops.packed_lstm import packed_bi_lstm as packed_bi_lstm
from elmo.ops.packing import PackedModule as PackedModule
from elmo.ops.packing import Precision as Precision
from elmo.ops.packing import Support as Support
from elmo.ops.packing import find_support as find_support
from elmo.ops.packing import pack as pack
from elmo.ops.packing import pack_words as pack_words
from elmo.ops.pairs import multiplied_pairs as multiplied_pairs
from elmo.ops.products import Library as Library
from elmo.ops.products import Product as Product
from elmo.ops.products import linear as linear
from elmo.ops.rows import distinct_rows as distinct_rows
from elmo.ops.rows import sorted_sums as sorted_sums
from elmo.ops.rows import take_rows as take_rows
from elmo.ops.softmax import softmax_loss as softmax_loss
from elmo.ops.triton_there import has_kernels as has_kernels

make_first_calls()
