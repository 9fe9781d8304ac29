toolset "time" {
  description = "The clock."
}

tool "time_now" {
  emoji = "🕒"

  handler "native" {
    function = "time.now"
    config   = { timezone = "UTC" }
  }
}
