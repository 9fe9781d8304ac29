# Public web pages and APIs, read only. Internal and metadata addresses are refused,
# whatever a name resolves to and wherever a server redirects.

locals {
  # Every public https host. List origins to narrow it: ["https://api.example.com"].
  web_hosts = ["*"]
}

toolset "web" {
  description = "Fetch public web pages and APIs; change nothing."
}

tool "http_get" {
  description = "Fetch a public https URL. A JSON answer comes decoded, any other text as it is; status says whether it worked."
  emoji       = "🌐"
  effect      = "read"

  param "url" {
    type        = string
    description = "Absolute URL, for example https://example.com/page?q=1"
    pattern     = "^https://"
    max_length  = 4096
  }
  param "accept" {
    type        = string
    description = "Value of the Accept header, for example application/json"
    default     = "*/*"
    max_length  = 200
  }

  limits {
    timeout     = "45s"
    concurrency = 8
  }
  result {
    max_chars = 60000
  }

  handler "native" {
    function = "http.request"
    config = {
      url          = args.url
      hosts        = local.web_hosts
      headers      = { Accept = args.accept }
      timeout      = "30s"
      max_response = "1MiB"
    }
  }
}

tool "http_head" {
  description = "Ask a public https URL for status and headers only: whether it exists, its type, when it changed."
  emoji       = "🌐"
  effect      = "read"

  param "url" {
    type        = string
    description = "Absolute URL, for example https://example.com/file.pdf"
    pattern     = "^https://"
    max_length  = 4096
  }

  handler "native" {
    function = "http.request"
    config = {
      method  = "HEAD"
      url     = args.url
      hosts   = local.web_hosts
      timeout = "15s"
    }
  }
}
