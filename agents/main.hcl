# The assistant, and the models it can run on. Everything here can be edited while the
# server runs; "hermes validate" says what is wrong, "hermes status" what is live.

locals {
  api_key_set  = env("OPENAI_API_KEY", "") != ""
  base_url_set = env("OPENAI_BASE_URL", "") != ""

  # With a key, or an address of a local server (Ollama, vLLM, llama.cpp), the assistant
  # runs on a real model; without, on the offline one.
  online = local.api_key_set || local.base_url_set
}

provider "openai" "default" {
  base_url = local.base_url_set ? env("OPENAI_BASE_URL") : "https://api.openai.com/v1"
  api_key  = secret_env("OPENAI_API_KEY", "")
}

provider "script" "offline" {}

model "main" {
  provider       = "openai.default"
  name           = env("OPENAI_MODEL", "") != "" ? env("OPENAI_MODEL") : "gpt-5-mini"
  context_window = 128000
  max_output     = 8192
}

agent "assistant" {
  description  = "Answers questions and gets things done with the tools it is given."
  model        = local.online ? "main" : "offline"
  instructions = file("prompts/assistant.md")

  # Whatever is dropped into tools.d. Name the toolsets one by one in production.
  toolsets = ["*"]
}
