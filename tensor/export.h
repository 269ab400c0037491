#pragma once

/// What one library has for programs and for the other libraries stands between these two. The libraries are compiled
/// with hidden symbols, so a shared one shows this and nothing else. Inside: one or more namespaces, and no #include.
#define TENDRIL_API_BEGIN _Pragma("GCC visibility push(default)")
#define TENDRIL_API_END _Pragma("GCC visibility pop")
