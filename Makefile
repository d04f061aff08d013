# Everything runs in .venv, which `setup` makes once (and again when pyproject.toml or constraints.txt changes).
.DEFAULT_GOAL := test
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.setup-done
DOCS := .venv/.docs-done
ENGINES := .venv/.engines-done
EXTRAS := text,train,store,tasks,probes,index,hub,serve,completion,tensorflow,peers,dev
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
export OMP_NUM_THREADS ?= 2

# The tests start many interpreters, so Python keeps what it compiles, whatever the environment says.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal --durations=10
INTEGRATIONS := $(addprefix tests/,integrations server page bench search) tests/model/test_torch_programs.py \
  $(addprefix tests/ops/test_,interpreted.py kernels_compile.py) $(addprefix tests/repository/test_,extras.py readme.py wheel.py)

.PHONY: setup demo serve test test-lab test-integrations test-engines test-processes test-transformers test-lightning test-originals test-cpus test-emulated test-systems test-pythons lint types docs commands models model-wheels picture results release format clean

setup: $(SETUP)

# torch comes first and by itself: from a wheel that pip is configured to find on this machine, else from the index of
# its builds without CUDA (the default build for Linux brings gigabytes of it). A torch that is there already stays.
$(SETUP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"elmo needs Python 3.11 or later, and $(PYTHON) is {v[0]}.{v[1]}: make PYTHON=python3.11 ...")'
	@echo "Setting up .venv: a few minutes, once."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null \
	  || $(PIP) install --no-index --no-deps torch==2.13.0 2>/dev/null \
	  || $(PIP) install --index-url https://download.pytorch.org/whl/cpu torch \
	  || { echo "No torch could be installed. Install one of your choice with $(BIN)/python -m pip, then run make again." >&2; exit 1; }
	@$(PIP) install -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(DOCS): $(SETUP)
	@$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@

$(ENGINES): $(SETUP)
	@$(PIP) install -c constraints.txt -e '.[ray,spark]'
	@touch $@

serve: $(SETUP)
	$(BIN)/elmo serve

demo: $(SETUP)
	@mkdir -p build
	@$(BIN)/elmo demo --output build/demo.hdf5 --overwrite

test: lint types
	$(PYTEST) $(addprefix --ignore=,tests/lab $(INTEGRATIONS))

# The laboratory: networks are trained.
test-lab: $(SETUP)
	$(PYTEST) tests/lab

# Other libraries, which take longer to import and compile than most tests to run, LanceDB among them; the server and its page;
# Triton's kernels, compiled and interpreted; what measures speed; and tests that start interpreters: the examples of the
# documentation, the extras one by one, and the wheel in environments of its own.
test-integrations: $(SETUP)
	$(PYTEST) $(INTEGRATIONS)

# Corpora on Ray and Spark, which are installed for this; Spark needs Java.
test-engines: $(ENGINES)
	@command -v java >/dev/null || { echo "test-engines needs Java 17 or later for Spark: apt-get install default-jre-headless" >&2; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:xdist -m engines --durations=5 tests/integrations/test_engines.py

# Processes that train together, and are killed: minutes of waiting for each other.
test-processes: $(SETUP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:xdist -m processes --durations=5 tests/pretraining/test_processes.py

# transformers 5 and its hub, beside the packages of .venv: Flair needs transformers 4.
NEWEST := build/transformers-5
$(NEWEST): $(SETUP)
	@$(PIP) install --target $@ 'transformers>=5'

test-transformers: $(NEWEST)
	@PYTHONPATH=$(NEWEST) $(BIN)/python -c "import transformers as t; assert int(t.__version__.split('.')[0]) >= 5, t.__file__"
	OMP_NUM_THREADS=1 PYTHONPATH=$(NEWEST) $(BIN)/python -m pytest -p no:xdist tests/integrations/test_transformers.py tests/formats/test_hub.py

# Lightning's Trainer, beside the packages of .venv: its torchmetrics makes every training import transformers (7 s).
LIGHTNING := build/lightning
$(LIGHTNING): $(SETUP)
	@$(PIP) install -c constraints.txt --no-deps --target $@ lightning pytorch-lightning torchmetrics

test-lightning: $(LIGHTNING)
	OMP_NUM_THREADS=1 PYTHONPATH=$(LIGHTNING) $(BIN)/python -m pytest -p no:xdist tests/integrations/test_own_network.py

# AllenNLP's own tests of its ELMo classes, against the stand-ins: its source, without its package or its dependencies.
ORIGINALS := build/allennlp-0.9.0
$(ORIGINALS): $(SETUP)
	@$(PIP) install --no-deps --target $@ allennlp==0.9.0

test-originals: $(ORIGINALS)
	OMP_NUM_THREADS=1 ELMO_ALLENNLP=$(ORIGINALS) $(BIN)/python -m pytest -p no:xdist tests/integrations/test_allennlp_own.py

# What depends on the processor's instructions, with some of them left out: AVX-512, then all but SSE 4.1 (FBGEMM needs AVX2).
PROCESSORS := $(addprefix tests/ops/test_,processors.py int8.py packed.py)
PRODUCTS := $(PROCESSORS) $(addprefix tests/,ops/test_ops.py ops/test_highway_lstm.py embedding/test_embedder.py embedding/test_reading.py \
  pretraining/test_perplexity.py pretraining/test_resume.py)
test-cpus: test-emulated
	ONEDNN_MAX_CPU_ISA=AVX2 FBGEMM_ENABLE_INSTRUCTIONS=AVX2 ATEN_CPU_CAPABILITY=avx2 $(PYTEST) $(PRODUCTS)
	ONEDNN_MAX_CPU_ISA=SSE41 FBGEMM_ENABLE_INSTRUCTIONS=AVX2 ATEN_CPU_CAPABILITY=default $(PYTEST) $(PRODUCTS)

# The same on whole processors that are emulated: one with AVX2, one with SSE 4.2. NumPy's sorting with AVX2 crashes in qemu.
test-emulated: $(SETUP)
	@command -v qemu-x86_64 >/dev/null || { echo "test-emulated needs qemu-x86_64: apt-get install qemu-user" >&2; exit 1; }
	for cpu in Haswell Nehalem; do OMP_NUM_THREADS=1 NPY_DISABLE_CPU_FEATURES=X86_V3 qemu-x86_64 -cpu $$cpu $(BIN)/python -m pytest -p no:xdist $(PROCESSORS) || exit 1; done

lint: $(SETUP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/oxlint --deny-warnings elmo/server/static

types: $(SETUP)
	$(BIN)/pyright

docs: $(DOCS)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

# Whether everything that is called is there on other systems and in the newest Python, too; `types` is for the oldest.
test-systems: $(SETUP)
	$(BIN)/pyright --pythonplatform Darwin
	$(BIN)/pyright --pythonplatform Windows
	$(BIN)/pyright --pythonversion 3.14

# Other Pythons of this machine (the system's, and those beside the one of .venv, as pyenv and uv keep them) compile all of
# the package and run what needs no torch, of which there may be no build for them here. One that is missing is named.
test-pythons: $(SETUP)
	@beside=$$($(BIN)/python -c 'import pathlib, sys; print(pathlib.Path(sys.base_prefix).parent)'); \
	for version in 3.12 3.13 3.14; do \
	  python=$$(ls -d $$beside/*$$version*/bin/python /usr/bin/python$$version /usr/local/bin/python$$version 2>/dev/null | tail -1); \
	  if [ -z "$$python" ]; then echo "Python $$version: not on this machine"; continue; fi; \
	  where=build/python$$version; rm -rf $$where; $$python -m venv $$where || exit 1; \
	  $$where/bin/python -m pip install -q rich safetensors filelock || exit 1; $$where/bin/python -m pip install -q --no-deps . || exit 1; \
	  $$where/bin/python -W error -m compileall -q -f elmo elmo_lab || exit 1; \
	  for command in --help "train --help" "info" "models norwegian"; do (cd $$where && bin/elmo $$command >/dev/null) || exit 1; done; \
	  echo "Python $$version: $$($$python --version), without torch"; \
	done

commands: $(SETUP)
	$(BIN)/python docs/commands.py

models: $(SETUP)
	$(BIN)/python docs/models.py

# The model packages: a wheel in dist/ for each package of models/, or for those named: make model-wheels MODELS=english-large
MODELS ?= $(patsubst models/%/pyproject.toml,%,$(wildcard models/*/pyproject.toml))
model-wheels: $(SETUP)
	for model in $(MODELS); do $(BIN)/python -m build --wheel --no-isolation --outdir dist models/$$model || exit 1; done

picture: $(SETUP)
	$(BIN)/python docs/picture.py

results: $(SETUP)
	$(BIN)/python -m results page

# All of a release but the upload, which docs/releasing.md has: nothing is published from here.
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' elmo/__init__.py)
release: $(SETUP)
	@test -z "$$(git status --porcelain)" || { echo "The working tree has changes; commit them first." >&2; exit 1; }
	@grep -q '^## \[$(VERSION)\]' CHANGELOG.md || { echo "CHANGELOG.md has no section [$(VERSION)]; name the version there and in elmo/__init__.py." >&2; exit 1; }
	@! git rev-parse -q --verify refs/tags/v$(VERSION) >/dev/null || { echo "The tag v$(VERSION) exists; raise __version__ in elmo/__init__.py." >&2; exit 1; }
	@$(PIP) install -c constraints.txt -e '.[release]'
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	ELMO_DIST=dist $(BIN)/python -m pytest -q tests/repository/test_wheel.py
	@echo
	@echo "dist/ is checked. To publish, as docs/releasing.md says:"
	@echo "    git tag -a v$(VERSION) -m 'elmo-torch $(VERSION)' && git push origin v$(VERSION)"
	@echo "    $(BIN)/twine upload dist/*"

format: $(SETUP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf build dist docs/_build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
