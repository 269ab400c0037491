#include "tendril/rpc/observe/message_page.h"

#include <cstdint>
#include <cstdio>

#include "tendril/rpc/observe/message_page_parts.h"

namespace tendril::rpc::detail {
namespace {

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

/// Returns the summary as HTML. If it has several lines, only the first is shown until the reader unfolds it.
std::string html_of_summary(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::size_t end = text.find('\n');
  if (end == text.npos) return "<p>" + html_escaped(text) + "</p>\n";
  return "<details><summary>" + html_escaped(text.substr(0, end)) + "</summary><pre>" +
         html_escaped(text.substr(end + 1)) + "</pre></details>\n";
}

}  // namespace

std::string json_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '<' || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

void MessagePage::add(const SimulationEvent& event, std::string_view more) {
  const auto number = [&](const char* name, auto value) {
    events_ += std::string(",\"") + name + "\":" + std::to_string(value);
  };
  events_ += events_.empty() ? "{\"kind\":" : ",\n{\"kind\":";
  events_ += json_literal(event.kind) + ",\"text\":" + json_literal(event.text);
  number("from", event.from);
  if (event.to >= 0) number("to", event.to);
  if (has_times) number("time", event.time.count());
  if (event.arrival.count() >= 0) number("arrival", event.arrival.count());
  if (event.connection != 0) number("connection", event.connection);
  if (event.bytes != 0) number("bytes", event.bytes);
  if (event.call_id != 0) number("call", event.call_id);
  if (event.corrupted) events_ += ",\"corrupted\":true";
  events_.append(more) += '}';
}

std::string MessagePage::html() const {
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" + html_escaped(title);
  out += "</title>\n<style>";
  out += kMessagePageStyle;
  out += "</style></head><body>\n<header><h1>" + html_escaped(title) + "</h1>\n" + html_of_summary(summary);
  out += "</header>\n" + figure;
  out += kMessagePageBody;
  out += "<script type=\"application/json\" id=\"data\">{\"ranks\":" + std::to_string(ranks) +
         ",\"timed\":" + (has_times ? "true" : "false") + ",\"end\":" + json_literal(end) + members;
  out += ",\n\"events\":[" + events_ + "]}</script>\n<script>\n";
  out += "'use strict';\nconst data = JSON.parse(document.getElementById('data').textContent);\n" + script;
  out += kMessagePageScript;
  out += "</script></body></html>\n";
  return out;
}

}  // namespace tendril::rpc::detail
