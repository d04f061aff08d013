# elmo serve with the packaged model, on a CPU:  docker build -t elmo . && docker run -e ELMO_API_KEY=... -p 8080:8080 elmo
# Another model:  docker run -v "$PWD/run/model:/model:ro" -e ELMO_API_KEY=... -p 8080:8080 elmo --model /model
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY elmo elmo
COPY elmo_lab elmo_lab
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch \
 && /venv/bin/pip install --no-cache-dir '.[serve,index]'

FROM python:3.12-slim
# The compiler is for --precision int8-weights.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 10001 elmo
COPY --from=build /venv /venv
USER 10001
WORKDIR /home/elmo
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=4)"]
ENTRYPOINT ["elmo", "serve", "--host", "0.0.0.0", "--port", "8080"]
