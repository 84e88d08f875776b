# The server: one image for web, workers and migrations. The command decides which.
FROM python:3.13-slim-bookworm

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PATH=/opt/venv/bin:$PATH
RUN python -m venv /opt/venv && pip install --quiet --upgrade 'pip>=25.1' \
    && useradd --uid 10001 --create-home promptctx

WORKDIR /app
# Requirements first: they change less often than the code. The client is installed editable, from a stub, then copied.
COPY pyproject.toml constraints.txt LICENSE README.md ./
RUN mkdir -p sdk/promptctx && touch sdk/promptctx/__init__.py \
    && pip install --quiet --constraint constraints.txt --group server --group telemetry --group flower --editable .

COPY alembic.ini ./
COPY sdk sdk
COPY domain domain
COPY workers workers
COPY web web
COPY migrations migrations
COPY examples examples
# Unpack the token ranks while the folder can be written, and give the user a place for a SQLite file.
RUN python -m workers.tokens && mkdir /data && chown promptctx /data

USER promptctx
ENV PROMPTCTX_HOST=0.0.0.0 PROMPTCTX_DATABASE_URL=sqlite:////data/promptctx.db
VOLUME /data
EXPOSE 8765
CMD ["python", "-m", "workers", "up"]
