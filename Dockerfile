FROM python:3.11-slim

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app

# requirements-traces.txt has what traces by OpenTelemetry need as well.
ARG REQUIREMENTS=requirements.txt
COPY requirements.txt requirements-traces.txt ./
RUN pip install --no-cache-dir -r ${REQUIREMENTS}

COPY . .
RUN useradd --system --no-create-home shadowprice \
    && mkdir -p /data /cache /metrics /archives && chown shadowprice /data /cache /metrics /archives
# Compiled kernels are kept here, so that a restarted worker loads them.
ENV SHADOWPRICE_VAR=/data NUMBA_CACHE_DIR=/cache
USER shadowprice
