tool "clock" {
  description = "The time in UTC."

  handler "native" {
    function = "time.now"
  }
}

tool "needs_key" {
  description  = "The time, for those who have a key."
  requires_env = ["HERMES_SCRIPT_TEST_KEY"]

  handler "native" {
    function = "time.now"
  }
}

tool "secret_files" {
  description = "Files that nobody reads."

  handler "native" {
    function = "file.read"
    config   = { root = "../workspace" }
  }
}

toolset "everything" {
  description = "By another way."
  tools       = ["c*"]
  includes    = ["clock"]
}
