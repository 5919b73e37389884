# A stand-in for the image edenhill/kcat, of Debian's package.
FROM python:3.13-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends kcat
ENTRYPOINT ["kcat"]
