# docker build -t splitter .
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" splitter run recordings
# For PyTorch's CPU package, pass the address that its installation page names: --build-arg PIP_EXTRA_INDEX_URL=...
FROM python:3.11-slim
ARG PIP_EXTRA_INDEX_URL
COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY splitter /source/splitter
# libsndfile and FFmpeg come with the wheels
RUN pip install --no-cache-dir -c /source/constraints.txt "/source[s3]" && rm -r /source && useradd --create-home splitter
USER splitter
# whoever --user names has no home of its own
ENV HOME=/tmp
WORKDIR /data
HEALTHCHECK CMD ["splitter", "--version"]
ENTRYPOINT ["splitter"]
CMD ["--help"]
