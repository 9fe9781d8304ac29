tool "now" {
  description = "The time at the server."
  toolset     = "clock"

  handler "native" {
    function = "time.now"
  }
}

# The rules may only call tools that are declared. The agent is not given this one: the
# client brings its own of the same name.
tool "look" {
  description = "Looks somewhere."
  toolset     = "clients"

  param "at" {
    type = string
  }

  handler "native" {
    function = "http.request"
    config = {
      url = "https://look.invalid/${urlencode(args.at)}"
    }
  }
}
