# The proxy: docker build -t autoprune . && docker run --rm --read-only --tmpfs /tmp -p 127.0.0.1:8484:8484 -e AUTOPRUNE_TOKEN autoprune
FROM python:3.13-slim AS build
WORKDIR /source
COPY setup.cfg setup.py pyproject.toml README.md LICENSE ./
COPY autoprune autoprune
RUN python -m venv /opt/autoprune && /opt/autoprune/bin/pip install --no-cache-dir '.[proxy]'

FROM python:3.13-slim
COPY --from=build /opt/autoprune /opt/autoprune
ENV PATH=/opt/autoprune/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=131072 XDG_STATE_HOME=/tmp
USER 10001:10001
WORKDIR /tmp
EXPOSE 8484
# The metrics need the token, since other machines can reach the proxy.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", "import os, urllib.request as u; \
u.urlopen(u.Request('http://127.0.0.1:8484/metrics', headers={'x-autoprune-token': os.environ['AUTOPRUNE_TOKEN']}), timeout=4)"]
ENTRYPOINT ["autoprune"]
CMD ["proxy", "--host", "0.0.0.0"]
