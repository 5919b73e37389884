# A stand-in for the image curlimages/curl, of Debian's package.
FROM python:3.13-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends curl \
 && useradd --uid 100 curl_user
USER curl_user
ENTRYPOINT ["curl"]
