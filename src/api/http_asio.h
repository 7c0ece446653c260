// The one way http*.cc include Boost: its code is compiled once, in http_asio.cc.
#pragma once
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

namespace rose {
namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;
}  // namespace rose
